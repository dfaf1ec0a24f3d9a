"""Devices of the inventory in messages of CRI: those that others chose, and the texts about a container's own."""
