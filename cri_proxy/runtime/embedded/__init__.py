"""A CRI v1 runtime in memory."""
