"""Scenario files as values."""
