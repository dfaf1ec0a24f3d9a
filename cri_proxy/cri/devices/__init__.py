"""Devices of the inventory in messages of CRI: those that others chose, and what tells a container of its own."""
