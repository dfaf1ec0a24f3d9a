"""Configure the structured log (structlog): JSON, journal or coloured lines on stderr; level and form may change."""

import json
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import is_dataclass
from typing import Literal, Protocol, TextIO

import structlog

from cri_proxy.codec import Plain, encode
from cri_proxy.foreign_text import SENTENCE_BYTES, admit, shorten, visible, visible_json

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")

# Syslog priorities, which journald reads from the front of a line (sd-daemon(3)): for `journalctl -p warning`.
_PRIORITIES: Mapping[Level, int] = {"debug": 7, "info": 6, "warning": 4, "error": 3}

_Event = MutableMapping[str, object]
Rendered = Mapping[str, object] | str | bytes | bytearray | tuple[object, ...]


class Log(Protocol):
    """A structured logger: an event name and fields (structlog's bound logger fits)."""

    def debug(self, event: str, **fields: object) -> object:
        """Log details for debugging; a field may be a dataclass, which is encoded only if the line is written."""

    def info(self, event: str, **fields: object) -> object:
        """Log a normal event."""

    def warning(self, event: str, **fields: object) -> object:
        """Log an event that an operator should look at."""

    def error(self, event: str, **fields: object) -> object:
        """Log an event that an operator must look at."""


def _level(method: str) -> Level:
    return next((level for level in LEVELS if level == method), "error")


def _arrange(logger: object, method: str, event: _Event) -> _Event:
    """Put time, level and event first; leave out fields that are None."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    return first | {key: value for key, value in event.items() if value is not None}


def _plain(value: object) -> Plain:
    """Return a dataclass as data, anything else as text."""
    return encode(value, sparse=True) if is_dataclass(value) else str(value)


def _json(value: object, *, default: Callable[[object], Plain]) -> str:
    """Return JSON whose characters all print: ``journalctl`` and ``kubectl logs`` show it on a terminal."""
    return visible_json(json.dumps(value, ensure_ascii=False, default=default))


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


class LogSwitch:
    """The lowest level that is logged, and the form of a line, its time included; both may change while running."""

    def __init__(self, level: Level, log_format: Format, stream: TextIO) -> None:
        """Write for ``stream``, which decides what ``auto`` means and whether there are colours."""
        self._stream = stream
        self._is_journal = is_journal(stream)
        self.use(level, log_format)

    def use(self, level: Level, log_format: Format) -> None:
        """Write lines from this level on, in this form."""
        self._lowest = LEVELS.index(level)
        self._is_console = is_console = wants_console(log_format, self._stream)
        # Colours only where a terminal shows them (https://no-color.org).
        colours = is_terminal(self._stream) and "NO_COLOR" not in os.environ
        self._stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S" if is_console else "iso", utc=not is_console)
        self._render: structlog.typing.Processor = (
            structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=18)
            if is_console
            else structlog.processors.JSONRenderer(serializer=_json, default=_plain)
        )

    def drop(self, logger: object, method: str, event: _Event) -> _Event:
        """Drop an event below the level, as the first structlog processor."""
        if LEVELS.index(_level(method)) < self._lowest:
            raise structlog.DropEvent
        return event

    def render(self, logger: object, method: str, event: _Event) -> Rendered:
        """Return the event as text, as the last structlog processor."""
        stamped = self._stamp(logger, method, {key: self._clean(value) for key, value in event.items()})
        line = self._render(logger, method, _arrange(logger, method, stamped))
        return f"<{_PRIORITIES[_level(method)]}>{line}" if self._is_journal and isinstance(line, str) else line

    def _clean(self, value: object) -> object:
        """Return a field's value without text that is too long, and for people without what does not print."""
        # Others wrote parts of it: the runtime, pods, processes.
        if isinstance(value, str):
            return admit(value, SENTENCE_BYTES) if self._is_console else shorten(value)
        return visible(repr(value)) if self._is_console and value is not None else value


_newest: list[LogSwitch] = []


def change_logging(level: Level, log_format: Format) -> None:
    """Change the level and form of the newest logger of ``configure_logging``."""
    for switch in _newest:
        switch.use(level, log_format)


def configure_logging(level: Level, log_format: Format, stream: TextIO | None = None) -> Log:
    """Return a logger for the daemon, on standard error unless another stream is given."""
    target = stream if stream is not None else sys.stderr
    switch = LogSwitch(level, log_format, target)
    _newest[:] = [switch]
    lazy = structlog.wrap_logger(
        structlog.WriteLogger(target),
        processors=[switch.drop, structlog.processors.add_log_level, switch.render],
        wrapper_class=structlog.BoundLogger,
    )
    logger: Log = lazy.bind()  # once: the lazy one binds again for each event, dropped ones too
    return logger
