"""Metrics: the catalog, counters, and the Prometheus text format."""
