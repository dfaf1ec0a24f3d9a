"""A private containerd, the daemon as a process, and container images: for the try-out, tests and benchmarks."""
