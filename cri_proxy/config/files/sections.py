"""A directory whose files are the sections of one configuration, as one text, and errors in it traced to their file.

So is a ConfigMap of cri-resource-manager mounted: each of its keys (``policy``, ``logger``, ...) is a file. What they
come to is the ConfigMap object itself, a layout that is understood anyway.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.errors import ConfigError

MARK = "policy"
"""The section without which a directory is none of cri-resource-manager's."""
# What a ConfigMap may have as a key (Kubernetes, IsConfigMapKey), but for names that begin with a dot: editors' files.
_KEY = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}")
_HEAD = "kind: ConfigMap\ndata:\n"
# What YAML 1.1 takes for the end of a line.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class SectionStart:
    """Where the text of a file begins in the whole, from line 1."""

    file: Path
    first_line: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """The whole text, and where each file's begins in it, in the order of the lines."""

    text: str
    parts: tuple[SectionStart, ...]


def may_be_section(name: str) -> bool:
    """Whether a file of this name can come from a ConfigMap.

    >>> may_be_section("resource-manager"), may_be_section(".policy.swp"), may_be_section("policy~")
    (True, False, False)
    """
    return _KEY.fullmatch(name) is not None


def assembled(texts: Iterable[tuple[Path, str]]) -> Assembled:
    """The ConfigMap object with these files' names as keys and a line for each of theirs; '' where none says anything.

    >>> print(assembled([(Path("/config/policy"), "Active: none")]).text, end="")
    kind: ConfigMap
    data:
     "policy": |1
      Active: none
    """
    chunks, parts, line, is_empty = [_HEAD], [], _HEAD.count("\n") + 1, True
    for file, text in texts:
        is_empty = is_empty and not text.strip("\ufeff \t\r\n")
        # A block of YAML ends where a line is indented less; its number says that more than that is the text's own.
        lines = _BREAK.split(text.removeprefix("\ufeff"))
        chunks += [f' "{file.name}": |1\n', *(f"  {each}\n" for each in lines)]
        parts.append(SectionStart(file, line + 1))
        line += 1 + len(lines)
    return Assembled("" if is_empty else "".join(chunks), tuple(parts))


def traced(error: ConfigError, parts: tuple[SectionStart, ...]) -> ConfigError:
    """The same error with the file that its line lies in, and the line there."""
    before = [part for part in parts if part.first_line - 1 <= error.line]
    if not before:
        return error
    line = max(error.line - before[-1].first_line + 1, 1)
    return replace(error, path=str(before[-1].file), line=line)
