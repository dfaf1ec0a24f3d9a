"""Runtimes: the channel to containerd, and the embedded in-process runtime."""
