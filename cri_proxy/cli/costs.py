"""``cri-proxy costs``: make listings of costs; a module for each action."""

import argparse
from typing import Final

from cri_proxy.cli.main import add_actions, run_action

HELP = "costs between CPUs, memory and devices: derive them from a machine"
EXAMPLE = """\
cri-proxy costs derive > costs.yaml
cri-proxy select costs.yaml --request cpu=4,memory=1
cri-proxy costs derive --help"""

ACTIONS: Final = ("derive",)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its own options."""
    add_actions(parser, "cost_actions", ACTIONS)


run = run_action
