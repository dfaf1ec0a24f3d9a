"""Whom a decision changed, and what happened to the container since, for a terminal. Pure."""

from collections.abc import Iterable, Sequence

from cri_proxy.cli.render.amounts import ids_text, moment_text
from cri_proxy.cli.render.columns import paragraph
from cri_proxy.node.status.model import DecisionView, DisplacedView
from cri_proxy.state.decisions import Change, Moved

_NAMES = 6


def render_displaced(decision: DecisionView, *, width: int) -> list[str]:
    """Others whose CPUs or memory nodes changed, those with the same change together, and those that moved."""
    groups: dict[str, list[str]] = {}
    for other in decision.displaced:
        groups.setdefault(_change(other), []).append(f"{other.namespace}/{other.pod}/{other.name}")
    texts = [f"{_names(names)}: {change}" for change, names in groups.items()]
    more = decision.displaced_count - len(decision.displaced)
    texts += [f"and {more} more containers"] if more > 0 else []
    moves = {str(moved.who): _move(moved) for moved in decision.moves}
    texts += [f"{name}: {moves.get(name, 'moved to a wider pool')}, to make room" for name in decision.moved]
    return _list(texts, width)


def moved_text(other: DisplacedView) -> str:
    """A container with what would be different for it."""
    return f"{other.namespace}/{other.pod}/{other.name}: {_change(other)}"


def render_history(history: Sequence[Change], *, width: int) -> list[str]:
    """What happened before and since, a dated line each."""
    lines: list[str] = []
    for change in history:
        # A code whose sentence says the same again is not shown beside it.
        code = "" if change.text.startswith(change.what) else f"{change.what}: "
        lines += paragraph(f"{moment_text(change.at_seconds)}  {code}{change.text}", "    ", first="  ", width=width)
    return lines


def _list(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in paragraph(text, "    ", first="  - ", width=width)]


def _change(other: DisplacedView) -> str:
    """What is different for another container: only what changed, from what to what."""
    parts = []
    if other.cpus_before is None and other.mems_before is None:
        return f"now {ids_text('CPU', other.cpus)}, {ids_text('memory node', other.mems)}"
    if other.cpus_before != other.cpus:
        parts.append(f"{ids_text('CPU', other.cpus_before)} to {ids_text('CPU', other.cpus)}")
    if other.mems_before != other.mems:
        parts.append(f"{ids_text('memory node', other.mems_before)} to {ids_text('memory node', other.mems)}")
    return f"from {', '.join(parts)}" if parts else "nothing that it may use"


def _move(moved: Moved) -> str:
    parts = []
    if moved.pool_before != moved.pool:
        parts.append(f"lifted from {moved.pool_before} to {moved.pool}")
    if moved.mems_before != moved.mems:
        word = "widened" if moved.mems_before <= moved.mems else "moved"
        parts.append(f"memory {word} from {ids_text('node', moved.mems_before)} to {ids_text('node', moved.mems)}")
    return ", ".join(parts) or "moved"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")
