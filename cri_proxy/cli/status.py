"""``cri-proxy status``: fetch and print pools and containers; with ``--watch`` poll, and redraw at every change."""

import argparse
import shutil
import sys
import time

HELP = "show the running daemon's pools and the containers in them"
EXAMPLE = """\
cri-proxy status
cri-proxy status --watch
cri-proxy status -o json | jq '.containers[] | {pod, name, cpus}'"""

_HOME = "\x1b[H"
_CLEAR_REST_OF_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    add_admin_option(parser)
    parser.add_argument("--watch", action="store_true", help="print it again whenever it changes, until interrupted")
    parser.add_argument(
        "--interval",
        type=_positive,
        default=1.0,
        metavar="SECONDS",
        help="how often --watch asks the daemon (default 1)",
    )


def _positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"expected seconds between 0.05 and 3600, got {text!r}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Print the status, once or at every change. Raises DaemonUnreachable."""
    shown = ""
    while True:
        text = _shown_text(args)
        if text != shown:
            if args.watch and sys.stdout.isatty():
                sys.stdout.write(redrawn(text, shutil.get_terminal_size().lines))
                sys.stdout.flush()
            else:
                print(text, flush=True)
            shown = text
        if not args.watch:
            return 0
        time.sleep(args.interval)


def redrawn(text: str, height: int) -> str:
    """Return the text with the codes to draw it over the terminal's content; nothing is cleared first, to not flicker.

    Lines below the last of ``height`` are left out and counted: a text that scrolls cannot be drawn over.
    """
    lines = text.split("\n")
    if len(lines) >= height:
        hidden = len(lines) - (height - 2)
        lines = [*lines[: height - 2], f"... {hidden} more lines: enlarge the window, or leave out --watch"]
    return _HOME + "".join(f"{line}{_CLEAR_REST_OF_LINE}\n" for line in lines) + _CLEAR_BELOW


def _shown_text(args: argparse.Namespace) -> str:
    """Return what to print now. Raises DaemonUnreachable."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import is_colourful, render
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.status import render_status
    from cri_proxy.node.status.model import StatusView

    view = fetch(args.admin, "/api/v1/status", StatusView)
    return render(view, args.output, render_status(view, colours=is_colourful(), width=terminal_width()))
