"""Print what commands answer as text, JSON or YAML: the only place of the commands that writes to the terminal.

Most texts hold words of others: names, annotations, refusals of the runtime. A renderer gets its value with every
string ``visible``, and nothing is printed with a control character but line ends and the codes of ``columns.paint``.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from operator import is_
from typing import TextIO, TypeVar, cast

from cri_proxy.cli.render.columns import STYLE_CODES
from cri_proxy.codec import encode
from cri_proxy.errors import CommandFailed
from cri_proxy.foreign_text import visible, visible_json, visible_lines

V = TypeVar("V")

_STYLE = re.compile(f"(\x1b\\[(?:{'|'.join(STYLE_CODES)})m)")
_HOME = "\x1b[H"
_CLEAR_REST_OF_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_OPEN_WINDOW = "\x1b[?1049h\x1b[?25l"
_CLOSE_WINDOW = "\x1b[?25h\x1b[?1049l"


def emit(value: V, output: str, text: Callable[[V], str], *, plain: Callable[[V], object] = encode) -> None:
    """Print a result in the format that ``-o`` selects; see ``rendered``."""
    say(rendered(value, output, text, plain=plain))


def rendered(value: V, output: str, text: Callable[[V], str], *, plain: Callable[[V], object] = encode) -> str:
    r"""Return the ``text`` of a value whose strings are visible, or its ``plain`` data as JSON or YAML.

    >>> rendered({"pod": "\x1b[2J"}, "text", lambda value: f"pod {value['pod']}")
    'pod \\x1b[2J'
    """
    if output == "text":
        return text(with_visible_text(value))
    data = encode(plain(value))
    if output == "json":
        return visible_json(json.dumps(data, ensure_ascii=False, indent=None if len(repr(data)) < 80 else 2))
    import yaml

    # With Unicode allowed, YAML escapes control characters, and not those that change the direction of text.
    is_printable = json.dumps(data, ensure_ascii=False).isprintable()
    document: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=is_printable, width=100)
    return document.rstrip("\n")


def with_visible_text(value: V) -> V:
    r"""Return a value (frozen values, sequences, mappings) with ``visible`` applied to every string in it.

    >>> with_visible_text(("web", ["\u202e"]))
    ('web', ['\\u202e'])
    """
    return cast("V", _visible(value))


def _visible(value: object) -> object:
    """Return the value itself where nothing has to change."""
    match value:
        case str() if not isinstance(value, Enum):
            return visible(value)
        case dict():
            return {_visible(key): _visible(item) for key, item in value.items()}
        case tuple() | list():
            items = [_visible(item) for item in value]
            return value if all(map(is_, items, value)) else type(value)(items)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
    changed = {name: new for name, old in pairs if (new := _visible(old)) is not old}
    return replace(value, **changed) if changed else value


def say(text: str) -> None:
    """Print lines of text for people on standard output. Raises CommandFailed where that cannot be written."""
    if sys.stdout is None:  # the caller has closed it
        raise CommandFailed("the output cannot be written: standard output is closed")
    _write(sys.stdout, f"{_printable(text)}\n")


def complain(text: str) -> None:
    """Print lines of text for people on standard error, if that is open."""
    if sys.stderr is not None:
        _write(sys.stderr, f"{_printable(text)}\n")


def redraw(text: str, height: int) -> None:
    """Print lines over the content of the terminal, which has this many."""
    _write(sys.stdout, redrawn(_printable(text), height))


def show_window(*, is_open: bool) -> None:
    """Open a window over the terminal's content, without a cursor; or close it, and show what was there before."""
    _write(sys.stdout, _OPEN_WINDOW if is_open else _CLOSE_WINDOW)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader (head, less) has had enough, which is no failure: `main` ends quietly.
        raise
    except OSError as error:
        discard(stream)
        raise CommandFailed(f"the output cannot be written: {error.strerror}") from None


def discard(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere: Python flushes what it still holds at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def redrawn(text: str, height: int) -> str:
    """Return the text with the codes to draw it over the terminal's content; nothing is cleared first, to not flicker.

    Lines below the last of ``height`` are left out and counted: a text that scrolls cannot be drawn over.
    """
    lines = text.split("\n")
    if len(lines) >= height:
        hidden = len(lines) - (height - 2)
        lines = [*lines[: height - 2], f"... {hidden} more lines: enlarge the window, or leave out --watch"]
    return _HOME + "".join(f"{line}{_CLEAR_REST_OF_LINE}\n" for line in lines) + _CLEAR_BELOW


def _printable(text: str) -> str:
    """Return the text without control characters other than line ends and our own styles."""
    parts = _STYLE.split(text)  # every second one is a style
    return "".join(part if i % 2 else visible_lines(part) for i, part in enumerate(parts))


def is_colourful() -> bool:
    """Return whether standard output is a terminal that wants colours (https://no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
