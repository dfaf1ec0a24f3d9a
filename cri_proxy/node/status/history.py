"""The events of a node since a moment, by its records of decisions and the containers that have ended. Pure."""

from collections.abc import Iterable, Iterator

from cri_proxy.node.decision_log.incidents import Incident
from cri_proxy.node.decision_log.summary import outcome_text
from cri_proxy.node.status.decision_views import EventView
from cri_proxy.node.status.model import ReloadView
from cri_proxy.state.decisions import DecisionRecord
from policies.container_name import ContainerName

_NODE = ContainerName("", "", "")


def events_of(record: DecisionRecord, since_seconds: float) -> Iterator[EventView]:
    """Yield the decision about a container and what followed, as far as it is as late as this."""
    name = record.request.full_name
    if record.decided_at_seconds is not None and record.decided_at_seconds >= since_seconds:
        yield _event(name, record.decided_at_seconds, str(record.outcome), outcome_text(record))
    for entry in record.history:
        if (entry.last_at_seconds or entry.at_seconds) >= since_seconds:
            yield _event(name, entry.at_seconds, entry.what, entry.text, entry.count, entry.last_at_seconds)


def other_events(ended: Iterable[Incident], reload: ReloadView | None, since_seconds: float) -> Iterator[EventView]:
    """Yield the containers that have ended since then, and the last reload of the configuration."""
    for each in ended:
        if each.at_seconds >= since_seconds:
            name = ContainerName(each.namespace, each.pod, each.container)
            yield _event(name, each.at_seconds, str(each.kind), each.text)
    if reload is not None and reload.at_seconds >= since_seconds:
        reason = f": {reload.reason}" if reload.reason else ""
        yield _event(_NODE, reload.at_seconds, "configuration", f"{reload.outcome}{reason}")


def _event(
    name: ContainerName, at: float, what: str, text: str, count: int = 1, last: float | None = None
) -> EventView:
    return EventView(name.namespace, name.pod, name.name, at, what, text, count, last)
