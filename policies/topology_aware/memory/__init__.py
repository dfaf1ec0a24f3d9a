"""Choose, widen and narrow the memory nodes of containers."""
