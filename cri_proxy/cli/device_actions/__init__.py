"""The actions of ``cri-proxy devices``: a module for each."""
