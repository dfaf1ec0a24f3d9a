"""The commands of docs/costs.md with their answers.

``python -m tests.golden.costs_page`` writes the answers into the page after they have changed on purpose.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

from cri_proxy.cli.help.commands import PROG
from cri_proxy.cli.main import run_command

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "costs.md"
INDENT = "    "
_COMMAND = re.compile(rf"{INDENT}\$ {PROG} (.*)\n")
_ANSWER = re.compile(rf"(?:\n*{INDENT}(?!\$ ).*\n)*")
_TIME = re.compile(r"[0-9.]+ ms")


def answer(command: str, directory: Path) -> str:
    """What a command, given without the program's name, prints; what it writes goes to ``directory``.

    Files of the sources are named as a command in a clone names them.
    """
    command, _, file = command.partition(" > ")
    words = [str(ROOT / word) if word.startswith("configs/") else word for word in shlex.split(command)]
    shown = io.StringIO()
    with contextlib.chdir(directory), contextlib.redirect_stdout(shown):
        run_command(words)
    if file:
        (directory / file).write_text(shown.getvalue())
        return ""
    return shown.getvalue().replace(f"{ROOT}/", "")


def answered(page: str, directory: Path) -> str:
    """The page with the answer below every command. A time of the page is taken as the time of the answer."""
    written, at = "", 0
    for found in _COMMAND.finditer(page):
        old = _ANSWER.match(page, found.end())
        end = old.end() if old else found.end()
        lines = answer(found[1], directory).splitlines()
        new = "".join(f"{INDENT}{line}\n" if line else "\n" for line in lines)
        for fresh, known in zip(_TIME.findall(new), _TIME.findall(page[found.end() : end]), strict=False):
            new = new.replace(fresh, known)
        written += page[at : found.end()] + new
        at = end
    return written + page[at:]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(answered(PAGE.read_text(), Path(made)))
