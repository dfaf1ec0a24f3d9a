"""The command lines of a page with what they print on the busy node, and pictures of some: written, and compared."""

import asyncio
import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

from cri_proxy.cli.main import run_command
from tests.terminal.node import CAPTURED, ROOT
from tests.terminal.picture import picture

PROMPT: Final = "    $ cri-proxy "
PAGE: Final = ROOT / "docs" / "questions.md"
PICTURES: Final = ROOT / "docs" / "pictures"
PICTURED: Final = {
    "terminal-status.svg": "status",
    "terminal-explain.svg": "explain shop/checkout/main",
    "terminal-fit.svg": "fit configs/questions/search.yaml",
    "terminal-topology.svg": "topology --machine dgx-a100",
}
WIDTH: Final = 100
# They differ each time: moments, how long a decision took, what the file of a configuration says.
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d((?:\s|\x1b\[\d+m)+)\d\d:\d\d:\d\d")
_DURATION: Final = re.compile(r"decided in [\d.]+ ms")
# A busy machine gives the daemon no CPU time now and then; it says so, above a blank line.
_STARVED: Final = re.compile(r"(?:\x1b\[\d+m)*warning: the event loop was .*?\n\n", re.DOTALL)
_ASKING: Final = ("status", "explain", "events", "fit", "check-config")


class _Screen(io.StringIO):
    """Collects what is printed; ``is_terminal``: as on a terminal, with colours."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


async def written(admin: Path) -> dict[Path, str]:
    """Return the texts of the page and of all pictures as they are now."""
    files = {PAGE: await _answered(PAGE.read_text(), admin)}
    for name, line in PICTURED.items():
        printed = await asyncio.to_thread(_output_of, shlex.split(line), admin, is_terminal=True)
        files[PICTURES / name] = picture(f"cri-proxy {line}", printed, columns=WIDTH)
    return files


async def _answered(page: str, admin: Path) -> str:
    """Return the page with the present answer below each of its command lines."""
    lines: list[str] = []
    is_answer = False
    for line in page.split("\n"):
        if line.startswith(PROMPT):
            answer = await asyncio.to_thread(_output_of, shlex.split(line.removeprefix(PROMPT)), admin)
            lines += [""] if is_answer else []
            lines += [line, *(f"    {text}".rstrip() for text in answer.splitlines())]
            is_answer = True
        elif not is_answer or (line and not line.startswith("    ")):
            lines += ["", line] if is_answer else [line]
            is_answer = False
    return "\n".join([*lines, ""] if is_answer else lines)


def _output_of(words: list[str], admin: Path, *, is_terminal: bool = False) -> str:
    """Return what a command line prints, errors too, with moments and durations that are always the same."""
    asked = [str(admin.parent / CAPTURED) if word == f"{CAPTURED}/" else word for word in words]
    asked += ["--admin", f"unix://{admin}"] if words[0] in _ASKING or "--state" in words else []
    printed = _Screen(is_terminal=is_terminal)
    with _in_clone(), redirect_stdout(printed), redirect_stderr(printed):
        run_command(asked)
    text = _STARVED.sub("", printed.getvalue())
    text = _DURATION.sub("decided in 0.9 ms", _MOMENT.sub(r"2026-11-28\g<1>09:30:00", text))
    return text.replace(f"{ROOT}/", "")


@contextmanager
def _in_clone() -> Iterator[None]:
    """Run as in the directory of the clone, on a terminal of this width."""
    directory, before = Path.cwd(), {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR", "TERM")}
    os.chdir(ROOT)
    os.environ.update(COLUMNS=str(WIDTH), TERM="xterm")
    os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        os.chdir(directory)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
