"""What a node is, as far as cri-proxy and its kubelet depend on it: values, and what reads them."""
