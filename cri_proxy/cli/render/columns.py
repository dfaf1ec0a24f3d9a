"""Lay out and wrap text for a terminal: columns, paragraphs, colours and the terminal's width."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 80
_NARROWEST = 40
_WIDEST = 200  # longer lines are hard to read
_PIPED = 10_000
GAP = "  "

_PIECE = re.compile(r"[^\s,/]*[,/]\s*|[^\s,/]+\s*")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "reverse": "7"}
_PLAIN = "0"
STYLE_CODES = (*_CODES.values(), _PLAIN)


def terminal_width() -> int:
    """Return what COLUMNS says, else the columns of the terminal on standard output; else so many that nothing wraps.

    What is piped is read by programs such as grep, for which a line is a line.
    """
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return max(_NARROWEST, int(said))
    if not sys.stdout.isatty():
        return _PIPED
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((WIDTH, 24)).columns))


def paint(text: str, style: str, *, colours: bool) -> str:
    """Return the text in a style, or as it is without colours."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[{_PLAIN}m" if colours and style and text else text


@dataclass(frozen=True, slots=True)
class Cells:
    """One row. ``lead`` stands before the first line, ``rest`` before its continuation lines."""

    texts: tuple[str, ...]
    styles: tuple[str, ...] = ()
    lead: str = ""
    rest: str = ""


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of at most this width, at spaces and after commas and slashes; at least one line.

    >>> wrap("0-3,8,12", 6)
    ['0-3,8,', '12']
    """
    lines: list[str] = []
    line = ""
    for piece in _PIECE.findall(text):
        if line and len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while len(line.rstrip()) > width:  # a single word that is too long
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def layout(rows: Sequence[Cells], widths: Sequence[int], *, colours: bool = False) -> list[str]:
    """Return the rows as lines: every cell wrapped to its column's width, nothing cut off."""
    return [line for row in rows for line in _lines(row, widths, colours)]


def _lines(row: Cells, widths: Sequence[int], colours: bool) -> list[str]:
    inner = [widths[0] - max(len(row.lead), len(row.rest)), *widths[1:]]
    cells = [wrap(text, width) for text, width in zip(row.texts, inner, strict=True)]
    styles = row.styles or ("",) * len(cells)
    lines = []
    for i in range(max(map(len, cells))):
        lead = row.lead if i == 0 else row.rest
        texts = [cell[i] if i < len(cell) else "" for cell in cells]
        fills = [widths[0] - len(lead), *widths[1:]]
        painted = [
            paint(text, style, colours=colours) + " " * (fill - len(text))
            for text, style, fill in zip(texts, styles, fills, strict=True)
        ]
        lines.append((lead + GAP.join(painted)).rstrip())
    return lines


def column_widths(rows: Sequence[Cells], limits: Sequence[int], *, flexible: int, total: int = WIDTH) -> list[int]:
    """Return a width per column: what its longest cell needs, at most its limit; ``flexible`` may take the rest.

    The flexible column gets at least its limit if its cells need it. Space that is left then goes to the other
    columns, from left to right: a wide terminal wraps nothing.
    """
    needed = [max((_need(row, i) for row in rows), default=0) for i in range(len(limits))]
    widths = [min(need, limit) for need, limit in zip(needed, limits, strict=True)]
    left = total - sum(widths) + widths[flexible] - len(GAP) * (len(widths) - 1)
    widths[flexible] = min(needed[flexible], max(left, limits[flexible]))
    left = total - sum(widths) - len(GAP) * (len(widths) - 1)
    for i, need in enumerate(needed):
        more = max(0, min(need - widths[i], left))
        widths[i] += more
        left -= more
    return widths


def scaled(limits: Sequence[int], width: int) -> list[int]:
    """Return these limits of columns, which suit WIDTH, for a narrower terminal.

    >>> scaled((40, 20, 20), 60), scaled((40, 20, 20), 200)
    ([30, 15, 15], [40, 20, 20])
    """
    return [max(len(GAP) + 2, limit * min(width, WIDTH) // WIDTH) for limit in limits]


def _need(row: Cells, column: int) -> int:
    return len(row.texts[column]) + (0 if column else max(len(row.lead), len(row.rest)))


def paragraph(text: str, indent: str, *, first: str | None = None, width: int = WIDTH) -> list[str]:
    """Wrap a sentence into lines."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
