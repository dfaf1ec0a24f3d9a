"""A CRI v1 runtime in memory: its state, its methods by subject, their dispatch, and a gRPC server for it."""
