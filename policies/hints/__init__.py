"""Topology hints as the kubelet's Topology Manager has them: what providers offer, and how policies merge it."""

from policies.lazy_import import door

__getattr__ = door(__name__)
