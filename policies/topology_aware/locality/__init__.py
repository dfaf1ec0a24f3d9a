"""Affinity between containers, and distance to their devices."""
