"""``cri-proxy hints``: what providers offer for a request, and what policies make of it; a module for each action."""

import argparse
from typing import Final

from cri_proxy.cli.main import add_output, help_of, load_command

HELP = "topology hints: merge them, generate them for a request, or compare the policies"
EXAMPLE = """\
cri-proxy hints generate request.yaml
cri-proxy hints merge hints.yaml --policy restricted
cri-proxy hints compare --format csv
cri-proxy hints merge --help"""

ACTIONS: Final = ("merge", "generate", "compare")


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its own options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name in ACTIONS:
        command = load_command(f"hint_actions.{name}")
        action = actions.add_parser(name, help=command.HELP, **help_of(command))
        command.register(action)
        add_output(action)
        action.set_defaults(run=command.run)


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises what it does."""
    status: int = args.run(args)
    return status
