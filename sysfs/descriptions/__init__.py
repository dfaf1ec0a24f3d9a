"""Machines from a description."""
