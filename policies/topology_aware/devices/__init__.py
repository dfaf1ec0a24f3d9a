"""Devices of cost files for a container: which are free, which of them cost least together with CPUs, why."""
