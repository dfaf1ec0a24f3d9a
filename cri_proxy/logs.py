"""Write the structured log: JSON, journal or coloured lines on stderr; level and form may change."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Literal, Protocol, TextIO

from cri_proxy.codec import Plain, encode
from cri_proxy.foreign_text import SENTENCE_BYTES, admit, shorten, visible, visible_json

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")

# Syslog priorities, which journald reads from the front of a line (sd-daemon(3)): for `journalctl -p warning`.
_PRIORITIES: Mapping[Level, int] = {"debug": 7, "info": 6, "warning": 4, "error": 3}

_Fields = dict[str, object]


class Log(Protocol):
    """A structured logger: an event name and fields."""

    def debug(self, event: str, **fields: object) -> object:
        """Log details for debugging; a field may be a dataclass, which is encoded only if the line is written."""

    def info(self, event: str, **fields: object) -> object:
        """Log a normal event."""

    def warning(self, event: str, **fields: object) -> object:
        """Log an event that an operator should look at."""

    def error(self, event: str, **fields: object) -> object:
        """Log an event that an operator must look at."""


def _plain(value: object) -> Plain:
    """Return a dataclass as data, anything else as text."""
    return encode(value, sparse=True) if is_dataclass(value) else str(value)


def _json(fields: _Fields) -> str:
    """Return JSON whose characters all print: ``journalctl`` and ``kubectl logs`` show it on a terminal."""
    return visible_json(json.dumps(fields, ensure_ascii=False, default=_plain))


def _for_people(*, colours: bool) -> Callable[[_Fields], str]:
    """Return what writes a line for people."""
    from structlog.dev import ConsoleRenderer  # a megabyte, which a daemon of systemd's does without

    renderer = ConsoleRenderer(colors=colours, pad_event_to=18)
    return lambda fields: renderer(None, "", fields)


def wants_console(log_format: Format, stream: TextIO) -> bool:
    """Return whether lines are written for people: requested, or on a terminal."""
    # JOURNAL_STREAM alone decides nothing: a terminal opened by a service of systemd inherits it (systemd.exec(5)).
    return is_terminal(stream) if log_format == "auto" else log_format == "console"


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal; False for a closed one."""
    return not stream.closed and stream.isatty()


def is_journal(stream: TextIO) -> bool:
    """Return whether the stream is the journal: JOURNAL_STREAM names its device and inode (systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # no file, or closed
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class LineLog:
    """Implements ``Log``: writes a line for an event. The lowest level and the form may change while it is in use."""

    def __init__(self, level: Level, log_format: Format, stream: TextIO) -> None:
        """Write to ``stream``, which decides what ``auto`` means and whether there are colours."""
        self._stream = stream
        self._is_journal = is_journal(stream)
        self.use(level, log_format)

    def use(self, level: Level, log_format: Format) -> None:
        """Write lines from this level on, in this form."""
        self._lowest = LEVELS.index(level)
        self._is_console = wants_console(log_format, self._stream)
        # Colours only where a terminal shows them (https://no-color.org).
        colours = is_terminal(self._stream) and "NO_COLOR" not in os.environ
        self._render = _for_people(colours=colours) if self._is_console else _json

    def debug(self, event: str, **fields: object) -> None:
        """See ``Log``."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """See ``Log``."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """See ``Log``."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """See ``Log``."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: _Fields) -> None:
        """Write time, level, event and the fields that are not None."""
        if LEVELS.index(level) < self._lowest:
            return
        cleaned = {key: self._clean(value) for key, value in fields.items() if value is not None}
        line = self._render({"timestamp": self._time(), "level": level, "event": self._clean(event)} | cleaned)
        # In one piece: threads write too.
        self._stream.write(f"<{_PRIORITIES[level]}>{line}\n" if self._is_journal else f"{line}\n")
        self._stream.flush()

    def _time(self) -> str:
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        if self._is_console:
            return time.strftime("%H:%M:%S", time.localtime(seconds))
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06}Z"

    def _clean(self, value: object) -> object:
        """Return a field's value without text that is too long, and for people without what does not print."""
        # Others wrote parts of it: the runtime, pods, processes.
        if isinstance(value, str):
            return admit(value, SENTENCE_BYTES) if self._is_console else shorten(value)
        return visible(repr(value)) if self._is_console else value


_newest: list[LineLog] = []


def change_logging(level: Level, log_format: Format) -> None:
    """Change the level and form of the newest logger of ``configure_logging``."""
    for log in _newest:
        log.use(level, log_format)


def configure_logging(level: Level, log_format: Format, stream: TextIO | None = None) -> Log:
    """Return a logger for the daemon, on standard error unless another stream is given."""
    log = LineLog(level, log_format, stream if stream is not None else sys.stderr)
    _newest[:] = [log]
    return log
