"""The proxy's own client of the runtime, and a CRI v1 runtime in memory."""
