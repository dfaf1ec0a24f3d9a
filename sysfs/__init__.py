"""What the machine is: discovery of CPUs, caches, NUMA nodes and devices from sysfs."""
