"""Run scenarios in one process: the daemon's interceptor and coordinator on an in-memory runtime."""
