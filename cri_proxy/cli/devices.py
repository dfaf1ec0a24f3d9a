"""``cri-proxy devices``: the devices of a node, and who gets which of them; a module for each action."""

import argparse
from typing import Final

from cri_proxy.cli.main import add_actions, run_action

HELP = "devices of a node: list them, allocate GPUs, NICs and VFs that go together, offer their NUMA nodes"
EXAMPLE = """\
cri-proxy devices list
cri-proxy devices allocate request.yaml
cri-proxy devices hints request.yaml
cri-proxy devices allocate --help"""

ACTIONS: Final = ("list", "allocate", "hints")


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its own options."""
    add_actions(parser, "device_actions", ACTIONS)


run = run_action
