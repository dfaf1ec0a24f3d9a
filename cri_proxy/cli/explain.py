"""``cri-proxy explain``: ask the daemon about a pod or container; print the decisions, or names that are near."""

import argparse
from collections.abc import Sequence
from functools import partial

from cri_proxy.errors import CommandFailed
from sysfs.known_words import question

EXAMPLE = """\
cri-proxy explain web/c0
cri-proxy explain shop/web/c0
cri-proxy explain kube-apiserver
cri-proxy explain web
cri-proxy explain --problems
cri-proxy explain web --namespace shop -o json"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument(
        "who",
        nargs="?",
        metavar="[NAMESPACE/]POD[/CONTAINER]",
        help="the pod by name or uid, and one of its containers; of a static pod the name without the node's does. "
        "A/B is both container B of pod A and pod B of namespace A. The name of a workload means all of its pods",
    )
    parser.add_argument(
        "--problems", action="store_true", help="list every container that is not as it asks, with what is amiss"
    )
    parser.add_argument("-n", "--namespace", default="", help="only pods of this namespace (default: any)")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the decisions. Raises CommandFailed for an unknown pod or container, and DaemonUnreachable."""
    if args.problems or args.who is None:
        return _run_problems(args)
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.explain import render_explain
    from cri_proxy.node.status.decision_views import ExplainView
    from cri_proxy.node.status.names import readings_of

    if not readings_of(args.who):
        raise CommandFailed(f"expected [NAMESPACE/]POD[/CONTAINER], got {args.who!r}", 2)
    query = {"pod": args.who, "namespace": args.namespace}
    view = fetch(args.admin, "/api/v1/explain", ExplainView, query)
    if view.decisions or args.output != "text":
        emit(view, args.output, partial(render_explain, colours=is_colourful(), width=terminal_width()))
    if not view.decisions:
        raise CommandFailed(unknown_text(args.who, args.namespace, view.candidates))
    return 0


def _run_problems(args: argparse.Namespace) -> int:
    """Print the containers that are not as they ask; 1 where there are any."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.problems import problems_of, render_problems
    from cri_proxy.node.status.model import StatusView

    if not args.problems:
        raise CommandFailed("expected [NAMESPACE/]POD[/CONTAINER], or --problems; see cri-proxy explain --help", 2)
    if args.who is not None:
        raise CommandFailed(f"--problems lists all containers: leave {args.who!r} out, or use --namespace", 2)
    view = fetch(args.admin, "/api/v1/status", StatusView)
    # The status lists the newest refusals and counts all of them.
    found, more = problems_of(view, args.namespace), max(0, view.refused_count - len(view.refused))
    text = partial(render_problems, more_refused=more, colours=is_colourful(), width=terminal_width())
    emit(found, args.output, text)
    return 1 if found else 0


def unknown_text(who: str, namespace: str, candidates: Sequence[str]) -> str:
    """Return the sentence about a name that nothing has, with those that it may have meant."""
    where = f" in namespace {namespace}" if namespace else ""
    remedy = question(" or ".join(candidates)) if candidates else "`cri-proxy status` lists all"
    return f"nothing is known of {who}{where}; {remedy}"
