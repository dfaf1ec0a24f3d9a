"""The files below /.cri-proxy that say what a container has."""
