"""Machines from a short description."""
