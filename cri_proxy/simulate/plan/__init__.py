"""Plan manifests: the pods arrive one after the other, a scheduler chooses nodes, each simulated node places them."""
