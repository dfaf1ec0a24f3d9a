"""Devices of a node that are given out together by their place: GPUs, NICs and FPGAs, whole, shared or as VFs."""

from policies.lazy_import import door

__getattr__ = door(__name__)
