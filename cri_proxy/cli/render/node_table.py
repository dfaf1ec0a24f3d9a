"""Format the status of several nodes as a table, and in one line what they have in common. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paint, scaled
from cri_proxy.node.status.model import StatusView
from sysfs.text import plural

_HEADER = ("NODE", "READY", "VERSION", "CONFIG", "FREE", "FITS", "PROBLEMS")
_LIMITS = (30, 11, 10, 12, 5, 5, 40)
_DIGEST = 12
NO_FILE = "none"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node of several. ``state`` is ready, not ready or unreachable.

    ``version`` is '' where the daemon does not tell, ``digest`` the SHA-256 of the configuration file ('' = unknown).
    ``free_cpus`` are those that a container could own, ``largest_fit`` the most that one could now; None where none
    owns CPUs or the node does not answer. ``problems`` are its violations and warnings, or why it does not answer.
    """

    name: str
    url: str
    state: str
    version: str = ""
    digest: str = ""
    free_cpus: int | None = None
    largest_fit: int | None = None
    problems: tuple[str, ...] = ()


def row_of(name: str, url: str, view: StatusView) -> NodeRow:
    """Return the row of a node that has answered."""
    refused = (f"refused in the last hour: {plural(view.refused_count, 'container')}",) if view.refused_count else ()
    digest = (view.configuration.digest or NO_FILE) if view.configuration is not None else ""
    return NodeRow(
        name,
        url,
        "ready" if view.is_ready else "not ready",
        view.version,
        digest,
        None if view.fits is None else view.fits.free_cpus,
        None if view.fits is None else view.fits.cpus,
        (*view.violations, *view.warnings, *refused),
    )


def node_table(rows: Sequence[NodeRow], *, colours: bool = False, width: int = WIDTH) -> str:
    """Return a line for each node, and one for all of them."""
    cells = [Cells(_HEADER, ("bold",) * len(_HEADER)), *map(_cells, rows)]
    widths = column_widths(cells, scaled(_LIMITS, width), flexible=len(_LIMITS) - 1, total=width)
    return "\n".join([*layout(cells, widths, colours=colours), "", paint(_summary(rows), "bold", colours=colours)])


def _cells(row: NodeRow) -> Cells:
    first, *others = row.problems or ("",)
    more = f" (+{len(others)} more: status --url {row.url})" if others else ""
    digest = row.digest[:_DIGEST]
    texts = (row.name, row.state, row.version, digest, _count(row.free_cpus), _count(row.largest_fit), first + more)
    style = {"ready": "", "not ready": "yellow"}.get(row.state, "red")
    return Cells(texts, (style, style, "", "", "", "", ""))


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def _summary(rows: Sequence[NodeRow]) -> str:
    """Return how many are ready, and in what they differ."""
    states = Counter(row.state for row in rows)
    counts = ", ".join(f"{states[state]} {state}" for state in ("ready", "not ready", "unreachable") if states[state])
    parts = [f"{plural(len(rows), 'node')}: {counts}"]
    for what, values in (
        ("configuration", Counter(row.digest[:_DIGEST] for row in rows if row.digest)),
        ("version", Counter(row.version for row in rows if row.version)),
    ):
        if len(values) > 1:
            shown = ", ".join(f"{value} on {count}" for value, count in values.most_common())
            parts.append(f"{plural(len(values), what)}: {shown}")
        elif values:
            parts.append(f"one {what}")
    return "; ".join(parts)
