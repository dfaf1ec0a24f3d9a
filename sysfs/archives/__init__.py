"""Machines in archives: capture and read."""
