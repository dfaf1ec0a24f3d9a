"""A kubelet-like client: the calls of a pod's life over any channel to a CRI runtime."""
