"""The channel to containerd, and a runtime in this process."""
