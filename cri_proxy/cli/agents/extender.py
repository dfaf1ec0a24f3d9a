"""``cri-proxy extender``: tell kube-scheduler which nodes suit the GPUs of a pod, until it is stopped."""

import argparse

from cri_proxy.cli.arguments import add_path
from cri_proxy.errors import CommandFailed
from cri_proxy.extender.server import DEFAULT_ADDRESS, ExtenderServer, serve

EXAMPLE = """\
cri-proxy extender
cri-proxy extender --http 127.0.0.1:8892 --links /etc/cri-proxy/gpu-links --log-level debug"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.logs import LEVELS

    parser.add_argument(
        "--http",
        default=DEFAULT_ADDRESS,
        metavar="ADDR:PORT",
        help=f"where to listen (default {DEFAULT_ADDRESS}); there is no password, so others than the scheduler should "
        "not reach it",
    )
    files = "a directory with a file for each node, named like it: its published word, or a matrix; for nodes that "
    add_path(
        parser, "--links", "DIR", f"{files}publish nothing, and where the scheduler sends only names (nodeCacheCapable)"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="the lowest level to log (default info)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises CommandFailed."""
    from cri_proxy.config.addresses import http_address
    from cri_proxy.logs import configure_logging
    from cri_proxy.relay.event_loop import run_on_loop
    from cri_proxy.tasks import stop_event

    try:
        address = http_address(args.http)
    except ValueError as error:
        raise CommandFailed(f"--http: {error}", 2) from error
    if address == "off":
        raise CommandFailed("--http: off leaves nothing to do; expected ADDRESS:PORT", 2)
    if args.links is not None and not args.links.is_dir():
        raise CommandFailed(f"--links: {args.links}: no such directory; make it, or leave the option out", 2)
    log = configure_logging(args.log_level, "auto")
    run_on_loop(serve(ExtenderServer(log=log, directory=args.links), address, lambda: stop_event().wait()))
    return 0
