"""Containers of the reserved CPUs that are elsewhere while these are full."""
