"""Facts of a node on which cri-proxy and its kubelet depend, and their readers."""
