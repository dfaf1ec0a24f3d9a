"""Topology hints of a container: what each resource offers, their merge, and the nodes that it is kept within."""
