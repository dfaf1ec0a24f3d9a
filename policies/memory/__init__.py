"""Memory of containers: zones of NUMA nodes, what is promised in them, how they widen and come back."""
