"""Start real programs for the try-out, tests and benchmarks: a private containerd, the daemon, an image."""
