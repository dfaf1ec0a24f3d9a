"""The machine as a value (CPUs, caches, NUMA nodes, PCI devices): discovered, described, captured or shown."""
