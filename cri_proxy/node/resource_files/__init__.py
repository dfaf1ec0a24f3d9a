"""The files below /.cri-proxy that list a container's CPUs and memory nodes."""
