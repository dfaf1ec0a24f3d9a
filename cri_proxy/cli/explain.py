"""``cri-proxy explain``: why a container sits where it sits."""

import argparse
import sys

from cri_proxy.http.view import ExplainView

HELP = "say why a container sits where it sits"
EXAMPLE = """\
cri-proxy explain web/c0
cri-proxy explain web --namespace shop -o json"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument("who", metavar="POD[/CONTAINER]", help="the pod by name or uid, and one of its containers")
    parser.add_argument("-n", "--namespace", default="", help="only pods of this namespace (default: any)")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the decisions; 1 when nothing is known of this pod or container, or no daemon answers."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render_explain import render_explain
    from cri_proxy.errors import CriProxyError

    pod, slash, container = args.who.partition("/")
    if not pod or "/" in container or (slash and not container):
        print(f"cri-proxy explain: expected POD or POD/CONTAINER, got {args.who!r}", file=sys.stderr)
        return 2
    query = {"pod": pod} | ({"container": container} if container else {})
    try:
        view = fetch(args.admin, "/api/v1/explain", ExplainView, query)
    except CriProxyError as error:
        print(f"cri-proxy explain: {error}", file=sys.stderr)
        return 1
    view = in_namespace(view, args.namespace)
    if not view.decisions:
        where = f" in namespace {args.namespace}" if args.namespace else ""
        print(
            f"cri-proxy explain: nothing is known of {args.who}{where}; `cri-proxy status` lists all", file=sys.stderr
        )
        return 1
    emit(view, args.output, render_explain(view, colours=is_colourful()))
    return 0


def in_namespace(view: ExplainView, namespace: str) -> ExplainView:
    """Only the decisions about pods of this namespace; '' means all."""
    chosen = (d for d in view.decisions if namespace in ("", d.request.pod.namespace))
    return ExplainView(tuple(chosen))
