"""The store in memory, which the simulation uses as well."""

from cri_proxy.state.memory_store import MemoryStore

__all__ = ["MemoryStore"]
