"""The actions of ``cri-proxy costs``."""
