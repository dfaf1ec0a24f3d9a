r"""Lines of a saved text as rows of words with their columns, without the escape codes and ``\r`` of terminals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from policies.devices.links.matrix import MAX_DEVICES, LinkError

# Codes of terminals, also where a log or a clipboard has lost their first character.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])|\[[0-9;]*m")
# A list of CPUs with spaces is one word.
_CELL = re.compile(r"\S+(?:(?<=\d,)[^\S\n]+(?=\d)\S+)*")


@dataclass(frozen=True, slots=True)
class TextRow:
    """A line of the text: its number, its words with their columns (both from 1), and itself without escape codes."""

    line: int
    cells: Sequence[tuple[int, str]]
    text: str

    def error(self, cell: int, problem: str) -> LinkError:
        """Return the error of the word at this position."""
        column, token = self.cells[cell]
        return LinkError(self.line, column, token[:20], problem)

    @property
    def words(self) -> list[str]:
        """The words alone."""
        return [word for _, word in self.cells]


def rows_of(text: str) -> list[TextRow]:
    """Return the lines of a text, empty ones too."""
    return [_row(number, line) for number, line in enumerate(text.split("\n"), 1)]


def _row(number: int, line: str) -> TextRow:
    # As many blanks keep the columns that errors name.
    text = _ESCAPE.sub(lambda found: " " * len(found[0]), line)
    # Longer lines than this are none of a matrix: a column for each device, and the places.
    cells = [(cell.start() + 1, "".join(cell[0].split())) for cell in islice(_CELL.finditer(text), MAX_DEVICES + 8)]
    return TextRow(number, cells, text)
