"""Render what a configuration changes on captured nodes: a line for each node that changes, and one for all."""

from collections.abc import Sequence

from cri_proxy.simulate.nodes import NodeChange
from sysfs.text import plural

MOST_NAMED = 3
_WIDTH = 200  # of a refusal, which may name all containers of a node


def fleet_text(found: Sequence[NodeChange]) -> str:
    """Return the lines."""
    lines = [_line(each) for each in found if each.is_change]
    refused = sum(bool(each.problem) for each in found)
    changed = len(lines) - refused
    return "\n".join([*lines, f"{plural(len(found), 'node')}: {changed} change, {refused} cannot take it"])


def _line(each: NodeChange) -> str:
    if each.problem:
        shown = each.problem if len(each.problem) <= _WIDTH else f"{each.problem[:_WIDTH]}..."
        return f"{each.node}: no: {shown}"
    named = [f"{moved.container} {moved.before} -> {moved.after}" for moved in each.moved[:MOST_NAMED]]
    more = [f"{len(each.moved) - MOST_NAMED} more"] if len(each.moved) > MOST_NAMED else []
    counts = f"{len(each.moved)} of {plural(each.containers, 'container')} move, {each.narrowed} get other shared CPUs"
    return f"{each.node}: {counts}{'; ' if named else ''}{'; '.join([*named, *more])}"
