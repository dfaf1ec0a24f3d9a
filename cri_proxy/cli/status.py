"""``cri-proxy status``: fetch and print pools and containers; with ``--watch`` poll, and redraw at every change."""

import argparse
import shutil
import sys
import time
from functools import partial

from cri_proxy.cli.arguments import seconds

HELP = "show the running daemon's pools and the containers in them"
EXAMPLE = """\
cri-proxy status
cri-proxy status --watch
cri-proxy status -o json | jq '.containers[] | {pod, name, cpus}'"""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    add_admin_option(parser)
    parser.add_argument("--watch", action="store_true", help="print it again whenever it changes, until interrupted")
    parser.add_argument(
        "--interval",
        type=seconds(0.05, 3600),
        default=1.0,
        metavar="SECONDS",
        help="how often --watch asks the daemon (default 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the status, once or at every change. Raises DaemonUnreachable."""
    from cri_proxy.cli.output import redraw, say

    shown = ""
    while True:
        text = _shown_text(args)
        if text != shown:
            if args.watch and sys.stdout.isatty():
                redraw(text, shutil.get_terminal_size().lines)
            else:
                say(text)
            shown = text
        if not args.watch:
            return 0
        time.sleep(args.interval)


def _shown_text(args: argparse.Namespace) -> str:
    """Return the text to print now. Raises DaemonUnreachable."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import is_colourful, rendered
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.status import render_status
    from cri_proxy.node.status.model import StatusView

    view = fetch(args.admin, "/api/v1/status", StatusView)
    return rendered(view, args.output, partial(render_status, colours=is_colourful(), width=terminal_width()))
