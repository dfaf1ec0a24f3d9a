"""The topology-aware policy."""
