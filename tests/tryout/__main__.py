"""The command line of ``make run``: choose a runtime, run the try-out, and exit 0 if the kernel confirms it all."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from cri_proxy.cli.output import complain, say
from cri_proxy.errors import CriProxyError
from cri_proxy.relay.event_loop import run_on_loop
from tests.testbed.containerd import REMEDY, missing_programs
from tests.testbed.image import BUSYBOX
from tests.tryout.session import EMBEDDED, PRIVATE, Plan, hold_session

INTERRUPTED = 130
EXAMPLES = """\
examples:
  make run
  make run RUNTIME=embedded
  make run RUNTIME=unix:///run/containerd/containerd.sock"""


def parser(environment: Mapping[str, str] = os.environ) -> argparse.ArgumentParser:
    """Return the command line; RUNTIME in the environment is the default of ``--runtime``."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tryout",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--runtime",
        default=environment.get("RUNTIME", ""),
        metavar="ENDPOINT",
        help="a runtime that runs (unix:///path), or 'embedded'; default: a private containerd, else embedded",
    )
    parser.add_argument("--image", default="", help="with --runtime: an image of the node with /bin/sleep and /bin/cat")
    parser.add_argument("--yes", action="store_true", help="use a running runtime without asking")
    return parser


def obstacle() -> str:
    """Return why a private containerd is impossible here; '' when it is possible."""
    if os.geteuid() != 0:
        return "not root"
    if missing := missing_programs():
        return f"no {', '.join(missing)} ({REMEDY})"
    return "" if BUSYBOX.exists() else f"no {BUSYBOX} (apt-get install busybox-static)"


def choose_runtime(wanted: str, why_not_private: str) -> tuple[str, str]:
    """Return the runtime to use, and a sentence about it or ''.

    >>> choose_runtime("", "not root")[0]
    'embedded'
    """
    if wanted:
        return wanted, ""
    if not why_not_private:
        return PRIVATE, ""
    return EMBEDDED, f"No containers here: {why_not_private}. The same on the embedded runtime and a described machine."


def is_allowed(runtime: str, *, yes: bool) -> bool:
    """Return True when the runtime may be used; asks on the terminal for a running one, unless ``yes``."""
    if runtime in (PRIVATE, EMBEDDED) or yes:
        return True
    if not sys.stdin.isatty():
        complain(f"{runtime} is in use by others: confirm with --yes")
        return False
    _say(f"This makes a few pods on {runtime} and removes them; containers that run there are left alone.")
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


async def _interruptible(plan: Plan) -> int:
    """Hold the session; the first signal ends it in order, further ones are answered with a message."""
    session = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if session is None or session.cancelling():
            _say("Still removing what was made.")
        else:
            session.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return 0 if await hold_session(plan, say=_say) else 1
    except asyncio.CancelledError:
        return 0 if plan.keeps_serving else INTERRUPTED


def _say(text: str) -> None:
    say(f"{text}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when the kernel confirmed every placement, 1 when not, 2 for a refusal to use a runtime."""
    arguments = parser().parse_args(argv)
    runtime, remark = choose_runtime(arguments.runtime, obstacle())
    if remark:
        _say(remark)
    if not is_allowed(runtime, yes=arguments.yes):
        return 2
    on_terminal = sys.stdout.isatty()
    plan = Plan(
        runtime,
        arguments.image,
        keeps_serving=on_terminal and sys.stdin.isatty(),
        colours=on_terminal and "NO_COLOR" not in os.environ,
    )
    try:
        return run_on_loop(_interruptible(plan))  # the relay's: a daemon in this process needs it
    except BrokenPipeError:  # the reader (head, less) ended; everything is removed by now
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CriProxyError as error:
        complain(f"cri-proxy tryout: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
