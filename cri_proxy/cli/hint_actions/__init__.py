"""The actions of ``cri-proxy hints``, a module each."""
