"""``cri-proxy completion``: print the completion script of a shell, or the names that such a script asks for."""

import argparse
from typing import Final

from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.errors import CommandFailed

EXAMPLE = """\
source <(cri-proxy completion bash)
cri-proxy completion zsh > _cri-proxy
cri-proxy completion fish > cri-proxy.fish"""

_SHELLS: Final = ("bash", "zsh", "fish")
CONTAINERS: Final = "containers"

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("--admin",), f"without {CONTAINERS}: a script asks for its own", lambda args: args.what != CONTAINERS
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument(
        "what",
        choices=(*_SHELLS, CONTAINERS),
        help="the shell; containers: the names of pods and containers of the running daemon, which the scripts ask for",
    )
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the script, or the names. Raises DaemonUnreachable and CommandFailed."""
    from cri_proxy.cli.output import say

    if args.what != CONTAINERS:
        from cri_proxy.cli.help.scripts import script

        say(script(args.what))
        return 0
    names = _names(args)
    if not names:
        raise CommandFailed("the daemon has no container")
    say("\n".join(names))
    return 0


def _names(args: argparse.Namespace) -> list[str]:
    """Return pods, and containers as POD/CONTAINER, of the running daemon."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.node.status.model import StatusView

    view = fetch(args.admin, "/api/v1/status", StatusView)
    pods = {each.pod for each in (*view.containers, *view.refused)}
    return sorted({*pods, *(f"{each.pod}/{each.name}" for each in (*view.containers, *view.refused))})
