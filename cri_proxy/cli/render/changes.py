"""Format the containers that a decision changed, and a container's history, for a terminal. Pure."""

from collections.abc import Iterable, Sequence

from cri_proxy.cli.render.amounts import ids_text, moment_text
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.state.decisions import DecisionRecord, HistoryEntry, PinningChange

_NAMES = 6


def render_displaced(decision: DecisionRecord, *, width: int) -> list[str]:
    """Return other containers whose CPUs or memory nodes changed, grouped by change, and those that moved."""
    groups: dict[str, list[str]] = {}
    for other in decision.displaced:
        groups.setdefault(_change(other), []).append(str(other))
    texts = [f"{_names(names)}: {change}" for change, names in groups.items()]
    more = decision.displaced_count - len(decision.displaced)
    texts += [f"and {more} more containers"] if more > 0 else []
    texts += [f"{move.who}: {move.code} {move.text}, to make room" for move in decision.moves]
    return _list(texts, width)


def pinning_change_text(other: PinningChange) -> str:
    """Return a container with the change of its pinning."""
    return f"{other}: {_change(other)}"


def render_history(history: Sequence[HistoryEntry], *, width: int) -> list[str]:
    """Return the history, a dated entry each."""
    lines: list[str] = []
    for change in history:
        # A code that its sentence starts with is not repeated.
        code = "" if change.text.startswith(change.what) else f"{change.what}: "
        lines += paragraph(f"{moment_text(change.at_seconds)}  {code}{change.text}", "    ", first="  ", width=width)
    return lines


def _list(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in paragraph(text, "    ", first="  - ", width=width)]


def _change(other: PinningChange) -> str:
    """Return what changed for another container, from what to what."""
    parts = []
    if other.cpus_before is None and other.mems_before is None:
        return f"now {ids_text('CPU', other.cpus)}, {ids_text('memory node', other.mems)}"
    if other.cpus_before != other.cpus:
        parts.append(f"{ids_text('CPU', other.cpus_before)} to {ids_text('CPU', other.cpus)}")
    if other.mems_before != other.mems:
        parts.append(f"{ids_text('memory node', other.mems_before)} to {ids_text('memory node', other.mems)}")
    return f"from {', '.join(parts)}" if parts else "nothing that it may use"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")
