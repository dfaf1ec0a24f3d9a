"""Parsers of single annotation values: memory kinds, threads, levels, priorities, durations, commands. Pure.

Each function takes a parsed JSON or YAML value and raises ``ValueError`` with a phrase: what was expected.
"""

import math
import re
import shlex
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from cri_proxy.cri.annotations.values import listed, truth
from policies.preferences import CpuPriority, Threads
from sysfs.model import MemoryKind

MAX_COLD_START_SECONDS = 3600
COLD_START_FIELDS = frozenset({"duration"})
MAX_ARGUMENTS = 64
MAX_COMMAND_CHARS = 4096

# A duration as Go writes it (time.ParseDuration): numbers with units, one after the other.
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{0,15}})?|\.[0-9]{{1,15}})({'|'.join(_UNITS)})", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_MAX_DURATION_CHARS = 64
_MIXED = frozenset({MemoryKind.DRAM, MemoryKind.PMEM})

E = TypeVar("E", bound=StrEnum)


def memory_kinds(value: object) -> tuple[MemoryKind, ...]:
    """Return the kinds of memory, sorted; ``mixed`` stands for dram and pmem.

    >>> memory_kinds("PMEM, dram") == memory_kinds("mixed") == memory_kinds(["dram", "pmem"])
    True
    """
    expected = f"{', '.join(MemoryKind)} or mixed, or a list of them"
    kinds: set[MemoryKind] = set()
    for word in listed(value, expected):
        if word.lower() == "mixed":
            kinds |= _MIXED
        elif word.lower() in list(MemoryKind):
            kinds.add(MemoryKind(word.lower()))
        else:
            raise ValueError(f"expected {expected}, not {word!r:.40}")
    return tuple(sorted(kinds))


def choice(kind: type[E], *, also: str = "") -> Callable[[object], E]:
    """Return the reader of a word of this kind, in any case; ``also`` is a word that the caller reads."""

    def read(value: object) -> E:
        word = value.strip().lower() if isinstance(value, str) else value
        for member in kind:
            if word == member.value:
                return member
        choices = [*(member.value for member in kind), *([also] if also else [])]
        raise ValueError(f"expected {', '.join(choices[:-1])} or {choices[-1]}")

    return read


def hidden_threads(value: object) -> Threads:
    """Read ``hide-hyperthreads`` of nri-plugins: true hides one thread of each core, false is any; or our own words."""
    try:
        return Threads.HIDE if truth(value) else Threads.ANY
    except ValueError:
        return choice(Threads)(value)


def cpu_priority(value: object) -> CpuPriority | None:
    """Return which CPUs to prefer; None (``default``): the option decides."""
    if isinstance(value, str) and value.strip().lower() == "default":
        return None
    return choice(CpuPriority, also="default")(value)


def cold_start_seconds(value: object) -> int:
    """Read a map with ``duration``, or the duration alone: seconds, or as Go writes it; rounded up to whole seconds.

    >>> cold_start_seconds({"duration": "1m30s"}), cold_start_seconds(20), cold_start_seconds("0.5s")
    (90, 20, 1)
    """
    if isinstance(value, dict):
        if set(value) != COLD_START_FIELDS:
            raise ValueError("expected a map with 'duration' and nothing else")
        value = value["duration"]
    seconds = _seconds(value)
    if not 0 <= seconds <= MAX_COLD_START_SECONDS:
        raise ValueError("expected a duration from 0 to 1h")
    return math.ceil(seconds)


def _seconds(value: object) -> float:
    """Return a duration's seconds; -1 for a number out of range."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before it is rounded: YAML knows .nan and .inf, and integers of any length.
        return float(value) if 0 <= value <= MAX_COLD_START_SECONDS else -1.0
    text = value.strip() if isinstance(value, str) and len(value) <= _MAX_DURATION_CHARS else ""
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError("expected a duration like 60s, 1m30s or 500ms, or seconds")
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def command(value: object) -> tuple[str, ...]:
    """Read a command: a list of its words, or one text that is split as a shell would (without expansions).

    >>> command("kill -HUP 1"), command(["sh", "-c", "touch /tmp/x"])
    (('kill', '-HUP', '1'), ('sh', '-c', 'touch /tmp/x'))
    """
    if isinstance(value, str):
        try:
            # One character more than is allowed, so that a longer text is refused below and not cut.
            words: tuple[object, ...] = tuple(shlex.split(value[: MAX_COMMAND_CHARS + 1]))
        except ValueError as error:
            raise ValueError(f"not a command: {error}") from None
    else:
        words = tuple(value) if isinstance(value, list) else ()
    found = tuple(_word(word) for word in words)
    if not found or not found[0]:
        raise ValueError("expected a command: a list of words, or a text")
    if len(found) > MAX_ARGUMENTS or sum(map(len, found)) > MAX_COMMAND_CHARS:
        raise ValueError(f"more than {MAX_ARGUMENTS} words or {MAX_COMMAND_CHARS} characters")
    return found


def _word(word: object) -> str:
    """Return one word of a command; YAML parses 1 and true as other types than text."""
    if isinstance(word, bool):
        return str(word).lower()
    if isinstance(word, str | int):
        return str(word)
    raise ValueError(f"the words of a command are text, not {word!r:.40}")
