"""The changes between two statuses, as sentences; print a line for each as they come."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cri_proxy.cli.output import say, with_visible_text
from cri_proxy.cli.render.amounts import ids_text, moment_text
from cri_proxy.cli.render.pool_tree import use_text
from cri_proxy.cli.render.status_filter import StatusFilter, filtered
from cri_proxy.clock import SystemClock
from cri_proxy.node.status.model import ContainerView, StatusView


@dataclass(frozen=True, slots=True)
class Change:
    """A change of ``container``, as ``namespace/pod/name``; '' = to the node."""

    container: str
    text: str


def changes(before: StatusView, after: StatusView) -> Iterator[Change]:
    """Yield what differs: containers that came, went or moved, refusals, reloads, readiness, violations, warnings."""
    old = {(each.pod_uid, each.name): each for each in before.containers}
    new = {(each.pod_uid, each.name): each for each in after.containers}
    for key in old.keys() - new.keys():
        yield Change(str(old[key]), "gone")
    for key, each in new.items():
        text = _text_of_change(old[key], each) if key in old else _place(each)
        if text:
            yield Change(str(each), text)
    known = {(str(each), each.at_seconds) for each in before.refused}
    for refused in after.refused:
        if (str(refused), refused.at_seconds) not in known:
            yield Change(str(refused), refused.text)
    yield from _of_node(before, after)


def _of_node(before: StatusView, after: StatusView) -> Iterator[Change]:
    last = after.configuration.last if after.configuration is not None else None
    if last is not None and (before.configuration is None or before.configuration.last != last):
        yield Change("", f"configuration {last.outcome}{f': {last.reason}' if last.reason else ''}")
    if after.is_ready != before.is_ready:
        yield Change("", "ready" if after.is_ready else "not ready")
    for violation in after.violations:
        if violation not in before.violations:
            yield Change("", f"violation: {violation}")
    for warning in after.warnings:
        if warning not in before.warnings:
            yield Change("", f"warning: {warning}")


def _place(each: ContainerView) -> str:
    where = f" in {each.pool}" if each.pool else ""
    return f"{each.state}, {use_text(each)} on {ids_text('CPU', each.cpus)}{where}"


def _text_of_change(old: ContainerView, new: ContainerView) -> str:
    parts = [] if old.state == new.state else [new.state]
    if (old.cpus, use_text(old)) != (new.cpus, use_text(new)):
        parts.append(f"{ids_text('CPU', old.cpus)} -> {ids_text('CPU', new.cpus)}, {use_text(new)}")
    if old.pool != new.pool:
        parts.append(f"from {old.pool or 'no pool'} to {new.pool or 'no pool'}")
    if old.mems != new.mems:
        parts.append(f"{ids_text('memory node', old.mems)} -> {ids_text('memory node', new.mems)}")
    parts += [note for note in new.notes if note not in old.notes]
    return ", ".join(parts)


def _nothing_known(view: StatusView) -> StatusView:
    """Return what the first status is compared with: all in it is new, and a node that is ready is no news."""
    return replace(view, containers=(), refused=(), warnings=(), violations=(), is_ready=True)


def watch_lines(
    fetched: Callable[[], StatusView], wanted: StatusFilter, interval_seconds: float, *, is_listed: bool = True
) -> None:
    """Print the containers, unless not ``is_listed``; then a line for each change with its time, until interrupted."""
    before: StatusView | None = None
    while True:
        view = filtered(with_visible_text(fetched()), wanted)
        known = before if before is not None else _nothing_known(view) if is_listed else view
        at = moment_text(SystemClock().now_seconds())
        for change in changes(known, view):
            say(f"{at}  {change.container or view.node}: {change.text}")
        before = view
        time.sleep(interval_seconds)
