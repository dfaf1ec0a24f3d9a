"""Where a container goes: pure decisions over a frozen machine; no I/O anywhere below this package."""
