"""The actions of ``cri-proxy gpu``."""
