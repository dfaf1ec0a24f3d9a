"""``cri-proxy explain``: ask the daemon about a pod or container, in every reading of its name; print the decisions."""

import argparse
from functools import partial

from cri_proxy.errors import CommandFailed
from cri_proxy.node.status.model import ExplainView, Explanation

HELP = "say why a container is where it is, or was refused"
EXAMPLE = """\
cri-proxy explain web/c0
cri-proxy explain shop/web/c0
cri-proxy explain web --namespace shop -o json"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument(
        "who", metavar="[NAMESPACE/]POD[/CONTAINER]", help="the pod by name or uid, and one of its containers"
    )
    parser.add_argument("-n", "--namespace", default="", help="only pods of this namespace (default: any)")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the decisions. Raises CommandFailed for an unknown pod or container, and DaemonUnreachable."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.explain import render_explain

    readings = readings_of(args.who)
    if not readings:
        raise CommandFailed(f"expected [NAMESPACE/]POD[/CONTAINER], got {args.who!r}", 2)
    views = [fetch(args.admin, "/api/v1/explain", ExplainView, query) for query in readings]
    view = in_namespace(together(views), args.namespace)
    if not view.decisions:
        where = f" in namespace {args.namespace}" if args.namespace else ""
        raise CommandFailed(f"nothing is known of {args.who}{where}; `cri-proxy status` lists all")
    emit(view, args.output, partial(render_explain, colours=is_colourful(), width=terminal_width()))
    return 0


def readings_of(who: str) -> list[dict[str, str]]:
    """Return what these words can mean, as queries: A/B is a container of a pod, or a pod of a namespace.

    >>> readings_of("shop/web")
    [{'pod': 'shop', 'container': 'web'}, {'pod': 'shop/web'}]
    """
    match who.split("/"):
        case [pod] if pod:
            return [{"pod": pod}]
        case [first, second] if first and second:
            return [{"pod": first, "container": second}, {"pod": who}]
        case [namespace, pod, container] if namespace and pod and container:
            return [{"pod": f"{namespace}/{pod}", "container": container}]
    return []


def together(views: list[ExplainView]) -> ExplainView:
    """Combine the decisions of these views, each container once."""
    found: dict[tuple[str, str], Explanation] = {}
    for view in views:
        for decision in view.decisions:
            key = decision.decision.key
            found.setdefault((key.pod_uid, key.name), decision)
    return ExplainView(tuple(found.values()))


def in_namespace(view: ExplainView, namespace: str) -> ExplainView:
    """Return only the decisions about pods of this namespace; '' means all."""
    chosen = (d for d in view.decisions if namespace in ("", d.decision.request.pod.namespace))
    return ExplainView(tuple(chosen))
