"""A small client of the Kubernetes API server, for the processes beside the daemon."""
