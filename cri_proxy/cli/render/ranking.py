"""Format the ranking of pools in an explanation: a table of the fields that decided, with a legend. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from cri_proxy.cli.render.columns import GAP, Cells, column_widths, layout, paragraph
from cri_proxy.node.status.decision_views import Explanation, FieldView
from cri_proxy.state.decisions import CHOSEN, RankedPool

_MAX_POOLS = 12
_POOL = 24
_WHY = 24


def render_ranking(explanation: Explanation, *, colours: bool, width: int) -> list[str]:
    """Return the best pools with the fields in which they differ, why each was not chosen, and a legend."""
    decision = explanation.decision
    if not decision.ranking:
        return []
    shown = _shown(decision.ranking)
    names = [name for name, _ in shown[0].key]
    fields = _fitting([name for name in names if name in _deciding(shown)], shown, width)
    rows = [Cells(("pool", *fields, "outcome"), ("dim",) * (len(fields) + 2))]
    rows += [_cells(row, fields) for row in shown]
    widths = column_widths(rows, (_POOL, *(12 for _ in fields), _WHY), flexible=len(fields) + 1, total=width - 2)
    lines = [f"  {line}" for line in layout(rows, widths, colours=colours)]
    total = max(decision.pools_considered, len(decision.ranking))
    if total > len(shown):
        lines.append(f"  ... and {total - len(shown)} more")
    return lines + _legend(fields, explanation.fields, width)


def _shown(ranking: Sequence[RankedPool]) -> list[RankedPool]:
    """Return the best pools, and the chosen one wherever it ranks."""
    return [row for i, row in enumerate(ranking) if i < _MAX_POOLS or row.outcome == CHOSEN]


def _cells(row: RankedPool, fields: Sequence[str]) -> Cells:
    key = dict(row.key)
    style = "green" if row.outcome == CHOSEN else ""
    return Cells(
        (row.pool, *(_value(key.get(name, "")) for name in fields), _outcome(row)), (style,) * (len(fields) + 2)
    )


def _outcome(row: RankedPool) -> str:
    """Return the outcome of a pool: chosen, why it lost, or why it could not be used."""
    return row.why if row.why and row.outcome in ("not tried", "") else row.outcome


def _deciding(rows: Sequence[RankedPool]) -> set[str]:
    """Return the fields that rank one of these pools before the next, or after the chosen one."""
    chosen = [row for row in rows if row.outcome == CHOSEN]
    pairs = [*pairwise(rows), *((chosen[0], row) for row in rows if chosen and row is not chosen[0])]
    deciding = set()
    for better, worse in pairs:
        other = dict(worse.key)
        deciding.add(next((name for name, value in better.key if other.get(name) != value), ""))
    return deciding


def _value(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fitting(fields: Sequence[str], rows: Sequence[RankedPool], width: int) -> list[str]:
    """Return the first of these fields, the most important ones, that fit between pool and outcome."""
    left = width - 2 - min(_POOL, max(len(row.pool) for row in rows)) - len(GAP) - _WHY
    fitting: list[str] = []
    for name in fields:
        left -= len(GAP) + max(len(name), *(len(_value(dict(row.key).get(name, ""))) for row in rows))
        if left < 0:
            break
        fitting.append(name)
    return fitting


def _legend(shown: Sequence[str], fields: Sequence[FieldView], width: int) -> list[str]:
    if not shown:
        return []
    rest = [field.name for field in fields if field.name not in shown]
    others = "; fields that are equal, or decided nothing, are left out" if rest else ""
    lines = ["", *paragraph(f"compared from left to right, the larger value wins{others}", "  ", width=width)]
    indent = max(map(len, shown)) + 4
    for field in fields:
        if field.name in shown and field.meaning:
            lines += paragraph(field.meaning, " " * indent, first=f"  {field.name.ljust(indent - 2)}", width=width)
    return lines
