"""``cri-proxy devices``: the devices of a node, and who gets which of them; a module for each action."""

EXAMPLE = """\
cri-proxy devices list
cri-proxy devices allocate configs/devices/joint.yaml
cri-proxy devices hints configs/devices/joint.yaml
cri-proxy devices allocate --help"""
