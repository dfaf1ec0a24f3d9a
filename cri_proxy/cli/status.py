"""``cri-proxy status``: fetch and print pools and containers, or some of them; with ``--watch`` follow the changes."""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from typing import Final, TypeVar

from cri_proxy.cli.arguments import add_path, argument, seconds
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.errors import CommandFailed
from sysfs.cpuset import CpuSet

EXAMPLE = """\
cri-proxy status
cri-proxy status --watch
cri-proxy status --namespace shop --problems
cri-proxy status --cpu 14
cri-proxy status --url https://worker-1 --ca-file ca.crt --token-file token
cri-proxy status --nodes pool=gpu --ca-file ca.crt --token-file token
cri-proxy status -o json | jq '.containers[] | {pod, name, cpus}'"""
V = TypeVar("V")

_KINDS = ("exclusive", "isolated", "mixed", "shared", "reserved", "preserve")
# Those of a Node (NodeAddressType of core/v1), and its name.
_ADDRESS_TYPES = ("InternalIP", "Hostname", "InternalDNS", "ExternalIP", "ExternalDNS", "name")
_SORTS = ("name", "cpus", "memory", "kind")
_OF_TREE = ("--sort", "--no-fold")

WITHOUT_EFFECT: Final = (
    WithoutEffect(("--kubeconfig", "--address-type", "--port"), "without --nodes", lambda args: not args.nodes),
    WithoutEffect(
        ("--ca-file", "--token-file", "--timeout"),
        "without --url or --nodes",
        lambda args: not args.url and not args.nodes,
    ),
    WithoutEffect(("--interval",), "without --watch", lambda args: not args.watch),
    WithoutEffect(_OF_TREE, "without -o text", lambda args: args.output != "text"),
    WithoutEffect(_OF_TREE, "with --nodes, which prints a row for each node", lambda args: bool(args.nodes)),
    WithoutEffect(
        _OF_TREE, "with --cpu, which prints no tree unless --watch does", lambda args: args.cpu and not args.watch
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    daemon = parser.add_mutually_exclusive_group()
    add_admin_option(daemon)
    daemon.add_argument("--url", default="", metavar="https://HOST[:PORT]", help="the daemon of another node")
    nodes = "a table of nodes: those with a label at the API server, or of a file of lines [NAME] https://HOST[:PORT]"
    listed = ", or of kubectl get nodes -o json; - for standard input"
    daemon.add_argument("--nodes", default="", metavar="LABEL|FILE", help=f"{nodes}{listed}")
    kubeconfig = "the API server to ask for --nodes LABEL ($KUBECONFIG, ~/.kube/config, or that of the pod)"
    add_path(parser, "--kubeconfig", "FILE", kubeconfig)
    address = "which address of Nodes to ask, or name for their names (default InternalIP)"
    parser.add_argument("--address-type", choices=_ADDRESS_TYPES, help=address)
    port = "the port to ask Nodes of the API server, or of kubectl, at (default 8891)"
    parser.add_argument("--port", type=argument(_port), metavar="N", help=port)
    add_path(parser, "--ca-file", "FILE", "the authorities whose certificates --url and --nodes trust (the system's)")
    add_path(parser, "--token-file", "FILE", "the token to show to them: the first line of this file")
    time = "how long a node may take to answer --url and --nodes (default 5)"
    parser.add_argument("--timeout", type=seconds(0.1, 600), default=5.0, metavar="SECONDS", help=time)
    parser.add_argument("-n", "--namespace", default="", help="only containers of this namespace (default: any)")
    parser.add_argument("--pod", default="", metavar="GLOB", help="only those whose pod or workload has such a name")
    parser.add_argument(
        "--cpu",
        type=argument(CpuSet.parse),
        default=CpuSet(),
        metavar="LIST",
        help="what is on these CPUs (14, 0-3,8): where they are, who owns them, who may run there",
    )
    parser.add_argument("--pool", default="", help="only this pool, and those below it")
    parser.add_argument("--kind", default="", choices=_KINDS, help="only containers with CPUs of this kind")
    parser.add_argument("--problems", action="store_true", help="only containers that are not as they ask")
    parser.add_argument("--sort", default="name", choices=_SORTS, help="the order within a pool (default name)")
    parser.add_argument(
        "--no-fold", action="store_true", help="a row for each container, also of a workload's pods that are alike"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="follow the changes until interrupted: on a terminal by keys, else a line for each",
    )
    parser.add_argument(
        "--interval",
        type=seconds(0.05, 3600),
        default=1.0,
        metavar="SECONDS",
        help="how often --watch asks the daemon (default 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the status, once or as it changes. Raises DaemonUnreachable and CommandFailed."""
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.pool_tree import TreeShape
    from cri_proxy.cli.render.status import letters_of, render_status
    from cri_proxy.cli.render.status_filter import StatusFilter, filtered, left_out
    from cri_proxy.node.status.model import StatusView

    wanted = StatusFilter(args.namespace, args.pod, args.pool, args.kind, args.problems, args.cpu)
    if args.nodes:
        if args.watch or wanted != StatusFilter():
            raise CommandFailed(
                "--nodes prints a row for each node: --watch and what chooses containers go with --url", 2
            )
        from cri_proxy.cli.remote.status import print_nodes

        return print_nodes(args)
    if args.watch and args.output != "text":
        raise CommandFailed("--watch prints text: poll with -o json instead", 2)
    daemon = _Daemon(args)
    whole = daemon.fetch("/api/v1/status", StatusView)
    view = filtered(whole, wanted)
    if args.watch:
        return _watch(args, daemon)
    if args.cpu:
        from cri_proxy.cli.render.cpus import render_cpus

        emit(view, args.output, partial(render_cpus, cpus=args.cpu, colours=is_colourful(), width=terminal_width()))
        return 0
    letters = letters_of(whole, {})  # the same whatever is shown
    # With those that are left out: their CPUs would be drawn as shared or free.
    shape = TreeShape(not args.no_fold, args.sort, letters, left_out=left_out(whole, view))
    text = partial(render_status, colours=is_colourful(), width=terminal_width(), shown=shape)
    emit(view, args.output, text)
    return 0


def _port(text: str) -> int:
    """Return a port. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 1 << 16):
        raise ValueError(f"expected a port from 1 to 65535, got {text!r:.40}")
    return int(text)


class _Daemon:
    """The daemon that the options name, on this node or another."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Ask nothing yet. Raises CommandFailed."""
        from cri_proxy.cli.admin import fetch

        self._fetch = partial(fetch, args.admin)
        self._ask = None
        if args.url:
            from cri_proxy.cli.remote.status import daemons_of, url_of

            self._url = url_of(args.url)
            self._ask = partial(daemons_of(args).ask, self._url)

    def fetch(self, target: str, kind: type[V], query: Mapping[str, str] | None = None) -> V:
        """Return the view of this kind that it answers. Raises DaemonUnreachable."""
        from cri_proxy.cli.admin import decoded

        if self._ask is None:
            return self._fetch(target, kind, query)
        return decoded(str(self._url), kind, self._ask(target, query))


def _watch(args: argparse.Namespace, daemon: _Daemon) -> int:
    """Follow the changes until interrupted, or until a key ends it. Raises DaemonUnreachable and CommandFailed."""
    from cri_proxy.cli.output import is_colourful, rendered
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.explain import render_explain
    from cri_proxy.cli.render.status_filter import StatusFilter
    from cri_proxy.cli.watch.changes import watch_lines
    from cri_proxy.cli.watch.terminal import watch_terminal
    from cri_proxy.cli.watch.window import Screen
    from cri_proxy.node.status.decision_views import ExplainView
    from cri_proxy.node.status.model import StatusView

    wanted = StatusFilter(args.namespace, args.pod, args.pool, args.kind, args.problems, args.cpu)
    fetched = partial(daemon.fetch, "/api/v1/status", StatusView)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        watch_lines(fetched, wanted, args.interval)
        return 0

    def explained(name: str) -> str:
        view = daemon.fetch("/api/v1/explain", ExplainView, {"pod": name})
        return rendered(view, "text", partial(render_explain, colours=is_colourful(), width=terminal_width()))

    screen = Screen(wanted, not args.no_fold, args.sort)
    watch_terminal(fetched, explained, screen, args.interval, colours=is_colourful())
    return 0
