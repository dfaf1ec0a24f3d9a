"""``cri-proxy exporter``: tell the cluster what the daemon of this node knows, until it is stopped."""

import argparse
from typing import TYPE_CHECKING, Final

from cri_proxy.cli.admin import add_admin_option
from cri_proxy.cli.arguments import add_path
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:
    from cri_proxy.exporter.exporter import Exporter

EXAMPLE = """\
cri-proxy exporter
cri-proxy exporter --kubeconfig /etc/cri-proxy/exporter.conf --once"""

WITHOUT_EFFECT: Final = (
    WithoutEffect(("--node-name",), "without --node-condition", lambda args: not args.node_condition),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.logs import LEVELS

    add_admin_option(parser)
    add_path(
        parser,
        "--kubeconfig",
        "FILE",
        "the API server and the credentials for it; without it those of the pod that this runs in",
    )
    no_events = "write no Events about pods that were refused, overcommitted, or had a wish ignored"
    parser.add_argument("--no-events", action="store_true", help=no_events)
    no_topology = "write no NodeResourceTopology object, as where another exporter writes it"
    parser.add_argument("--no-topology", action="store_true", help=no_topology)
    condition = "keep the condition CriProxyReady of the Node: needs the rights of exporter-condition/access.yaml"
    parser.add_argument("--node-condition", action="store_true", help=condition)
    parser.add_argument(
        "--node-name",
        default="",
        metavar="NAME",
        help="the name of the Node with that condition (default: as the daemon says, once it answers)",
    )
    parser.add_argument("--once", action="store_true", help="look once, tell the cluster, and exit: 1 if that failed")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="the lowest level to log (default info)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; with --once 0 when the cluster has been told. Raises CommandFailed."""
    from cri_proxy.relay.event_loop import run_on_loop
    from cri_proxy.systemd import notify
    from cri_proxy.tasks import stop_event

    exporter = exporter_of(args)
    if args.once:
        return 0 if run_on_loop(exporter.once()) else 1

    async def serve() -> None:
        stopping = stop_event()
        notify("READY=1")
        await exporter.serve(stopping.wait)

    run_on_loop(serve())
    return 0


def exporter_of(args: argparse.Namespace) -> "Exporter":
    """Return the exporter that the options make. Raises CommandFailed."""
    import os
    from random import Random

    from cri_proxy.clock import SystemClock
    from cri_proxy.config.addresses import optional_name
    from cri_proxy.exporter.daemon import AdminClient
    from cri_proxy.exporter.exporter import Exporter, ExporterPart
    from cri_proxy.exporter.node_condition import NodeConditionPart
    from cri_proxy.exporter.pod_events import PodEventsPart
    from cri_proxy.exporter.topology import TopologyPart
    from cri_proxy.kube_api.access import AccessError, access_of
    from cri_proxy.kube_api.client import ApiClient
    from cri_proxy.logs import configure_logging

    try:
        access, node = access_of(args.kubeconfig, os.environ), optional_name(args.node_name)
    except AccessError as error:
        raise CommandFailed(str(error), 2) from error
    except ValueError as error:
        raise CommandFailed(f"--node-name: {error}", 2) from error
    log, clock = configure_logging(args.log_level, "auto"), SystemClock()
    daemon, api = AdminClient(args.admin), ApiClient(access)
    parts: list[ExporterPart] = []
    if not args.no_topology:
        parts.append(TopologyPart(daemon, api, clock, log))
    if not args.no_events:
        parts.append(PodEventsPart(daemon, api, clock, log))
    if args.node_condition:
        parts.append(NodeConditionPart(daemon, api, clock, node))
    if not parts:
        raise CommandFailed("--no-topology and --no-events leave nothing to do", 2)
    return Exporter(parts, clock, log, Random())
