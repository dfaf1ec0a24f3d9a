"""Format what has happened: a line for each event. Pure."""

from cri_proxy.cli.render.amounts import moment_text
from cri_proxy.node.status.decision_views import EventView, HistoryView
from cri_proxy.state.decisions import HistoryEntry


def event_text(event: EventView | HistoryEntry) -> str:
    """Return an event in words. A code that its sentence starts with is not repeated."""
    code = "" if event.text.startswith(event.what) else f"{event.what}: "
    last = event.last_at_seconds
    return f"{code}{event.text}" + ("" if last is None else f" ({event.count} times, last {moment_text(last)})")


def render_events(history: HistoryView, since_seconds: float) -> str:
    """Return a line for each event, in UTC; what could not be known stands below."""
    lines = [f"{moment_text(each.at_seconds)}  {_who(each)}: {event_text(each)}" for each in history.events]
    lines = lines or [f"nothing has happened since {moment_text(since_seconds)}"]
    if since_seconds < history.started_at_seconds:
        started = moment_text(history.started_at_seconds)
        lines.append(f"the daemon started {started}; what ended before, and earlier reloads, are in its log")
    return "\n".join(lines)


def _who(event: EventView) -> str:
    return str(event) if event.pod else "the node"
