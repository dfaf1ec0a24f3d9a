"""The window of ``status --watch`` on a terminal: ask the daemon, draw, read keys, until ``q`` is pressed."""

import os
import re
import select
import shutil
import sys
import termios
import tty
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from cri_proxy.cli.output import redraw, show_window, with_visible_text
from cri_proxy.cli.render.columns import terminal_width
from cri_proxy.cli.render.pool_tree import TreeShape
from cri_proxy.cli.render.status import letters_of, status_lines
from cri_proxy.cli.render.status_filter import filtered, left_out
from cri_proxy.cli.watch.changes import changes
from cri_proxy.cli.watch.window import Screen, drawn_lines, names_in, pressed
from cri_proxy.clock import SystemClock
from cri_proxy.errors import CommandFailed
from cri_proxy.node.status.model import StatusView

_KEYS: Final[Mapping[str, str]] = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "delete",
    "\x08": "delete",
    "\x1b": "escape",
    "\x04": "q",
}
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[@-~]|.", re.DOTALL)  # ECMA-48, 5.4: a control sequence; or a character
_BEGUN: Final = re.compile(r"\x1b\[[0-9;]*\Z")
_REST_SECONDS: Final = 0.05
"""For how long the rest of a control sequence is waited for."""


def watch_terminal(
    fetched: Callable[[], StatusView],
    explained: Callable[[str], str],
    screen: Screen,
    interval_seconds: float,
    *,
    colours: bool,
) -> None:
    """Show the status on the terminal until ``q`` is pressed; ``explained`` returns the text about a container."""
    clock, letters = SystemClock(), dict[str, str]()
    view = with_visible_text(fetched())
    asked_at = clock.monotonic_seconds()
    keys = _Keys()
    with _key_presses():
        while not screen.is_over:
            columns, height, now = terminal_width(), shutil.get_terminal_size().lines, clock.monotonic_seconds()
            letters = letters_of(view, letters)
            chosen = filtered(view, screen.wanted)
            shape = TreeShape(screen.is_folded, screen.sort, letters, screen.marked(now), left_out(view, chosen))
            lines = status_lines(chosen, colours=colours, width=columns, shown=shape)
            texts, screen = drawn_lines(screen, lines, height - 1, colours=colours)
            redraw("\n".join([*texts[:-1], texts[-1][: columns - 1]]), height)
            key = keys.next(max(0.0, asked_at + interval_seconds - now))
            if key:
                screen = pressed(screen, key, names_in(lines), height - 1)
            if screen.asks_about:
                page = tuple(_explanation(explained, screen.asks_about))
                screen = replace(screen, page=page, top=0, asks_about="")
            if clock.monotonic_seconds() >= asked_at + interval_seconds:
                before, view, asked_at = view, with_visible_text(fetched()), clock.monotonic_seconds()
                screen = screen.with_changed([change.container for change in changes(before, view)], asked_at)


def _explanation(explained: Callable[[str], str], name: str) -> list[str]:
    try:
        return explained(name).split("\n")
    except CommandFailed as error:
        return [str(error)]


@contextmanager
def _key_presses() -> Iterator[None]:
    """Let keys be read one by one, without an echo, as long as this lasts; what the terminal showed comes back."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    show_window(is_open=True)
    try:
        yield
    finally:
        show_window(is_open=False)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class _Keys:
    """The keys that are pressed, one by one, also where several come at once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""

    def next(self, wait_seconds: float) -> str:
        """Return the next key by its name, '' where none is pressed in this time or it has no meaning here."""
        if not self._text:
            self._read(wait_seconds)
        # A control sequence may come in two parts: its first one alone would be read as other keys.
        while _BEGUN.match(self._text) and self._read(_REST_SECONDS):
            pass
        found = _KEY.match(self._text)
        if found is None:
            return ""
        self._text = self._text[found.end() :]
        key = found[0]
        return _KEYS.get(key, key if len(key) == 1 else "")

    def _read(self, wait_seconds: float) -> bool:
        """Add what comes within this time; return whether anything did."""
        terminal = sys.stdin.fileno()
        if not select.select([terminal], [], [], wait_seconds)[0]:
            return False
        came = os.read(terminal, 1024)
        self._text += self._decoder.decode(came)
        return bool(came)
