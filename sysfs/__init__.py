"""The machine: CPUs, caches, NUMA nodes and PCI devices, discovered from sysfs."""
