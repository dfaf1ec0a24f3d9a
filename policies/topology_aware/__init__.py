"""The topology-aware policy."""

from policies.lazy_import import door

__getattr__ = door(__name__)
