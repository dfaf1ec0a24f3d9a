"""``cri-proxy events``: list what has happened since a moment: placements, moves, refusals, ends, reloads."""

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from cri_proxy.cli.arguments import argument

if TYPE_CHECKING:  # loaded late
    from cri_proxy.node.status.decision_views import HistoryView

EXAMPLE = """\
cri-proxy events
cri-proxy events --since yesterday
cri-proxy events --since 2h --namespace shop --pod 'web*'
cri-proxy events --since '2026-11-28 22:00' -o json
cri-proxy events --follow"""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO: Final = re.compile(r"(\d{1,6})([smhd])")
_MOMENTS: Final = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ")
_FOLLOW_SECONDS: Final = 1.0


def moment(text: str) -> Callable[[float], float]:
    """Return the moment that a text names, given the time now; both since the epoch, words in UTC. Raises ValueError.

    >>> moment("2h")(10_000), moment("yesterday")(100_000), moment("1970-01-02 00:00")(0)
    (2800.0, 0.0, 86400.0)
    """
    if ago := _AGO.fullmatch(text):
        return lambda now_seconds: now_seconds - float(int(ago[1]) * _UNITS[ago[2]])
    if text in ("today", "yesterday"):
        days = 0 if text == "today" else 1
        return lambda now_seconds: _midnight(now_seconds, days)
    for form in _MOMENTS:
        try:
            at = datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
        return lambda _: at
    raise ValueError(f"expected a time as 30m, 2h, 7d, today, yesterday or '2026-11-28 22:00' (UTC), got {text!r}")


def _midnight(now_seconds: float, days: int) -> float:
    today = datetime.fromtimestamp(now_seconds, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today - timedelta(days=days)).timestamp()


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument(
        "--since",
        type=argument(moment),
        default=moment("24h"),
        metavar="TIME",
        help="how long ago (30m, 2h, 7d), today, yesterday, or a time in UTC as '2026-11-28 22:00' (default 24h)",
    )
    parser.add_argument("-n", "--namespace", default="", help="only containers of this namespace (default: any)")
    parser.add_argument("--pod", default="", metavar="GLOB", help="only those whose pod has such a name")
    parser.add_argument("--follow", action="store_true", help="go on with a line for each change, until interrupted")
    add_admin_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the events. Raises DaemonUnreachable and CommandFailed."""
    from cri_proxy.cli.admin import fetch
    from cri_proxy.cli.output import emit
    from cri_proxy.cli.render.events import render_events
    from cri_proxy.cli.render.status_filter import StatusFilter
    from cri_proxy.cli.watch.changes import watch_lines
    from cri_proxy.clock import SystemClock
    from cri_proxy.errors import CommandFailed
    from cri_proxy.node.status.decision_views import HistoryView
    from cri_proxy.node.status.model import StatusView

    if args.follow and args.output != "text":
        raise CommandFailed("--follow prints text: poll with -o json instead", 2)
    since_seconds = args.since(SystemClock().now_seconds())
    history = fetch(args.admin, "/api/v1/history", HistoryView, {"since": f"{since_seconds:.3f}"})
    text = partial(render_events, since_seconds=since_seconds)
    emit(_chosen(history, args), args.output, text)
    if args.follow:
        wanted = StatusFilter(args.namespace, args.pod)
        watch_lines(partial(fetch, args.admin, "/api/v1/status", StatusView), wanted, _FOLLOW_SECONDS, is_listed=False)
    return 0


def _chosen(history: "HistoryView", args: argparse.Namespace) -> "HistoryView":
    """Return the events of the containers that are asked for; those of the node where all are."""
    events = (
        each
        for each in history.events
        if args.namespace in ("", each.namespace) and (not args.pod or fnmatchcase(each.pod, args.pod))
    )
    return replace(history, events=tuple(events))
