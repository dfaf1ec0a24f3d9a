"""Draw what a command prints on a terminal as an SVG: no font but the viewer's, every run of a style in its column."""

import re
from collections.abc import Iterator
from html import escape
from typing import Final

CHAR_WIDTH: Final = 8.0
LINE_HEIGHT: Final = 18
MARGIN: Final = 16
_STYLE: Final = re.compile(r"\x1b\[(\d+)m")
_BACKGROUND, _TEXT = "#16181d", "#d7dae0"
_STYLES: Final = {
    "1": f'fill="{_TEXT}" font-weight="bold"',
    "2": 'fill="#8b919c"',
    "31": 'fill="#ff7b72"',
    "32": 'fill="#7ee787"',
    "33": 'fill="#e3b341"',
    "36": 'fill="#79c0ff"',
    "7": f'fill="{_TEXT}" text-decoration="underline"',
}


def picture(command: str, printed: str, *, columns: int) -> str:
    """Return the picture of a prompt with this command, and below it what was printed, with the codes of styles."""
    lines = [f"\x1b[36m$\x1b[0m \x1b[1m{command}\x1b[0m", *printed.rstrip("\n").split("\n")]
    width, height = columns * CHAR_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN
    body = [text for row, line in enumerate(lines) for text in _line(line, MARGIN + (row + 0.75) * LINE_HEIGHT)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="ui-monospace, monospace" font-size="13">',
            f"<title>{escape(command)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _line(line: str, y: float) -> Iterator[str]:
    column = 0
    for style, text in _runs(line):
        for word in re.finditer(r"\S+(?: \S+)*", text):
            x, length = MARGIN + (column + word.start()) * CHAR_WIDTH, len(word[0]) * CHAR_WIDTH
            look = _STYLES.get(style, f'fill="{_TEXT}"')
            yield (
                f'<text x="{x:g}" y="{y:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs" {look}>'
                f"{escape(word[0])}</text>"
            )
        column += len(text)


def _runs(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line with the code of their style, '' for none."""
    style = ""
    for number, part in enumerate(_STYLE.split(line)):
        if number % 2:
            style = "" if part == "0" else part
        elif part:
            yield style, part
