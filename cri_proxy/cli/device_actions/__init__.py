"""``cri-proxy devices``: the devices of a node, and who gets which of them; a module for each action."""

from typing import Final

HELP = "devices of a node: list them, allocate those that go together, offer their NUMA nodes, declare them"
EXAMPLE = """\
cri-proxy devices list
cri-proxy devices allocate configs/devices/joint.yaml
cri-proxy devices hints configs/devices/joint.yaml
cri-proxy devices allocate --help"""

ACTIONS: Final = ("list", "allocate", "hints", "cdi")
