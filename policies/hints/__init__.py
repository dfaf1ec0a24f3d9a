"""Topology hints as the kubelet's Topology Manager has them: what providers offer, and how policies merge it."""
