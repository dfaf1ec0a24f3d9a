"""``cri-proxy config-agent``: keep a host directory the copy of a mounted ConfigMap and group; or copy once, exit."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cri_proxy.cli.arguments import add_path, argument, seconds
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:
    from cri_proxy.config.files.agent import Gate
    from cri_proxy.logs import Log

EXAMPLE = """\
cri-proxy config-agent --from /config --to /host/etc/cri-proxy/cluster
cri-proxy config-agent --from /config --to /host/etc/cri-proxy/cluster --group realtime --once
cri-proxy config-agent --from /config --to /host/cluster --cluster --canary cri-proxy.io/group=canary"""

GROUP_VARIABLE = "CRI_PROXY_NODE_GROUP"
NODE_VARIABLE = "NODE_NAME"

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("--canary", "--node-name", "--config-map", "--kubeconfig"), "without --cluster", lambda args: not args.cluster
    ),
    WithoutEffect(("--canary-steady", "--canary-timeout"), "without --canary", lambda args: not args.canary),
    WithoutEffect(("--canary",), "with --once, which waits for no other node", lambda args: args.once),
)


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
    asked = "ask the API server for the Node, whose label is the group, again and again"
    group.add_argument("--cluster", action="store_true", help=asked)
    parser.add_argument("--once", action="store_true", help="copy it once and exit")
    _register_cluster(parser)


def _register_cluster(parser: argparse.ArgumentParser) -> None:
    """Add what goes with --cluster."""
    parser.add_argument(
        "--canary",
        action="append",
        default=[],
        type=argument(_label),
        metavar="LABEL",
        help="nodes with this label (KEY=VALUE) take a change before all others; several: in this order",
    )
    steady = "how long canaries must have it in force before others take it (default 60)"
    parser.add_argument("--canary-steady", type=seconds(0, 86400), default=60.0, metavar="SECONDS", help=steady)
    most = "how long canaries may take before the rollout counts as stopped (default 900)"
    parser.add_argument("--canary-timeout", type=seconds(1, 86400), default=900.0, metavar="SECONDS", help=most)
    name = f"the name of the Node (default: the variable {NODE_VARIABLE})"
    parser.add_argument("--node-name", default="", metavar="NAME", help=name)
    config_map = "the ConfigMap that is mounted, for messages and Events (default kube-system/cri-proxy)"
    parser.add_argument(
        "--config-map",
        type=argument(_config_map),
        default=("kube-system", "cri-proxy"),
        metavar="NAMESPACE/NAME",
        help=config_map,
    )
    kubeconfig = "the API server and the credentials for it; without it those of the pod that this runs in"
    add_path(parser, "--kubeconfig", "FILE", kubeconfig)


def run(args: argparse.Namespace) -> int:
    """Copy until SIGTERM or SIGINT; with --once 0 when the target holds it, 1 when not. Raises CommandFailed."""
    from cri_proxy.clock import SystemClock
    from cri_proxy.config.addresses import optional_name
    from cri_proxy.config.files.agent import Agent, Origin
    from cri_proxy.logs import configure_logging
    from cri_proxy.relay.event_loop import run_on_loop
    from cri_proxy.tasks import stop_event

    try:
        is_given = args.group_file or args.cluster
        group = "" if is_given else optional_name(args.group or os.environ.get(GROUP_VARIABLE, ""))
    except ValueError as error:
        raise CommandFailed(f"group: {error}", 2) from error
    origin = Origin(args.origin.absolute(), group, args.group_file.absolute() if args.group_file else None)
    log = configure_logging("info", "auto")
    gate = _gate_of(args, log) if args.cluster else None
    agent = Agent(origin, args.target.absolute(), log=log, clock=SystemClock(), gate=gate)
    if args.once:
        return 0 if run_on_loop(agent.copy()) else 1

    async def serve() -> None:
        await agent.serve(stop_event().wait())

    run_on_loop(serve())
    return 0


def _gate_of(args: argparse.Namespace, log: "Log") -> "Gate":
    """Return the gate by the cluster. Raises CommandFailed."""
    from random import Random

    from cri_proxy.clock import SystemClock
    from cri_proxy.config.addresses import optional_name
    from cri_proxy.kube_api.access import AccessError, access_of
    from cri_proxy.kube_api.client import ApiClient
    from cri_proxy.rollout.cluster import ConfigMapName, RolloutCluster
    from cri_proxy.rollout.gate import ClusterGate, RolloutRules

    try:
        access = access_of(args.kubeconfig, os.environ)
        node = optional_name(args.node_name or os.environ.get(NODE_VARIABLE, ""))
    except AccessError as error:
        raise CommandFailed(str(error), 2) from error
    except ValueError as error:
        raise CommandFailed(f"--node-name: {error}", 2) from error
    if not node:
        raise CommandFailed(f"--cluster needs the Node's name: --node-name, or {NODE_VARIABLE} from spec.nodeName", 2)
    rules = RolloutRules(tuple(args.canary), args.canary_steady, args.canary_timeout)
    cluster = RolloutCluster(ApiClient(access), node, ConfigMapName(*args.config_map))
    return ClusterGate(cluster, rules, clock=SystemClock(), log=log, random=Random())


def _label(text: str) -> str:
    """Return a label selector that chooses some Nodes: '' would choose all, and each be a canary. Raises ValueError."""
    if not text.strip():
        raise ValueError(f"expected a label, KEY=VALUE, got {text!r}")
    return text


def _config_map(text: str) -> tuple[str, str]:
    """Return namespace and name of NAMESPACE/NAME. Raises ValueError."""
    from cri_proxy.config.addresses import optional_name

    namespace, _, name = text.partition("/")
    if not namespace or not name:
        raise ValueError(f"expected NAMESPACE/NAME, got {text!r:.80}")
    return optional_name(namespace), optional_name(name)
