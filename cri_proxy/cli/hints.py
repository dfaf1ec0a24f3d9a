"""``cri-proxy hints``: what providers offer for a request, and what policies make of it; a module for each action."""

import argparse
from typing import Final

from cri_proxy.cli.main import add_actions, run_action

HELP = "topology hints: merge them, generate them for a request, or compare the policies"
EXAMPLE = """\
cri-proxy hints generate request.yaml
cri-proxy hints merge hints.yaml --policy restricted
cri-proxy hints compare --format csv
cri-proxy hints merge --help"""

ACTIONS: Final = ("merge", "generate", "compare")


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its own options."""
    add_actions(parser, "hint_actions", ACTIONS)


run = run_action
