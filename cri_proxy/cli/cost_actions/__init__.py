"""``cri-proxy costs``: make listings of costs; a module for each action."""

from typing import Final

HELP = "costs between CPUs, memory and devices: derive them from a machine"
EXAMPLE = """\
cri-proxy costs derive > costs.yaml
cri-proxy select costs.yaml --request cpu=1,memory=1
cri-proxy costs derive --help"""

ACTIONS: Final = ("derive",)
