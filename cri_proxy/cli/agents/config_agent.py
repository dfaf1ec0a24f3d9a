"""``cri-proxy config-agent``: keep a host directory the copy of a mounted ConfigMap and group; or copy once, exit."""

import argparse
import os
from pathlib import Path

from cri_proxy.errors import CommandFailed

EXAMPLE = """\
cri-proxy config-agent --from /config --to /host/etc/cri-proxy/cluster
cri-proxy config-agent --from /config --to /host/etc/cri-proxy/cluster --group realtime --once"""

GROUP_VARIABLE = "CRI_PROXY_NODE_GROUP"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--from", dest="origin", type=Path, required=True, metavar="DIR", help="where the ConfigMap is mounted"
    )
    parser.add_argument(
        "--to", dest="target", type=Path, required=True, metavar="DIR", help="the directory that cri-proxy run reads"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--group", metavar="NAME", help=f"the node's group (default: the variable {GROUP_VARIABLE})")
    group.add_argument(
        "--group-file",
        type=Path,
        metavar="FILE",
        help="a file with the node's group: its name, the pod's labels (downward API volume), or the Node (YAML, JSON)",
    )
    parser.add_argument("--once", action="store_true", help="copy it once and exit")


def run(args: argparse.Namespace) -> int:
    """Copy until SIGTERM or SIGINT; with --once 0 when the target holds it, 1 when not.

    Raises CommandFailed for a wrong group.
    """
    from cri_proxy.clock import SystemClock
    from cri_proxy.config.addresses import optional_name
    from cri_proxy.config.files.agent import Agent, Origin
    from cri_proxy.logs import configure_logging
    from cri_proxy.relay.event_loop import run_on_loop
    from cri_proxy.tasks import stop_event

    try:
        group = "" if args.group_file else optional_name(args.group or os.environ.get(GROUP_VARIABLE, ""))
    except ValueError as error:
        raise CommandFailed(f"group: {error}", 2) from error
    origin = Origin(args.origin.absolute(), group, args.group_file.absolute() if args.group_file else None)
    log = configure_logging("info", "auto")
    agent = Agent(origin, args.target.absolute(), log=log, clock=SystemClock())
    if args.once:
        return 0 if agent.copy() else 1

    async def serve() -> None:
        await agent.serve(stop_event().wait())

    run_on_loop(serve())
    return 0
