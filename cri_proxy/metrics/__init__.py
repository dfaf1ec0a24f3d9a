"""Metrics: the catalog, counters, samples of this process, and the Prometheus text format."""
