"""Decisions as records and log lines."""
