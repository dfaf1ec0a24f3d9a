"""Start, stop, reload and hand over the daemon."""
