"""A kubelet-like client, container images and a private containerd, for simulation, the try-out and tests."""
