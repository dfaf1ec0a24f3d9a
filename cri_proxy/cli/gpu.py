"""``cri-proxy gpu``: links between GPUs, which GPUs go together, and the score of a node; a module for each action."""

import argparse
from typing import Final

from cri_proxy.cli.main import add_actions

HELP = "links between GPUs: show a matrix, choose GPUs by it, or score the node"
EXAMPLE = """\
cri-proxy gpu topology topo.txt
cri-proxy gpu allocate topo.txt --size 2 --available 0,1,4-7
cri-proxy gpu score topo.txt --request 4
cri-proxy gpu allocate --help"""

ACTIONS: Final = ("topology", "allocate", "score")


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its own options."""
    add_actions(parser, "gpu_actions", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises what it does."""
    status: int = args.run(args)
    return status
