"""Join a directory of cri-resource-manager's section files into one ConfigMap text; map error lines back to files.

A mounted ConfigMap of cri-resource-manager looks like this: each of its keys (``policy``, ``logger``, ...) is a file.
Joined they are the ConfigMap object itself, a layout that is understood anyway.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.errors import ConfigError

REQUIRED_SECTION = "policy"
"""The section that every configuration of cri-resource-manager has."""
# A key of a ConfigMap (Kubernetes, IsConfigMapKey); names that begin with a dot are editors' files.
_KEY = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}")
_HEAD = "kind: ConfigMap\ndata:\n"
# The line breaks of YAML 1.1.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class SectionStart:
    """Where the text of a file begins in the joined text; lines count from 1."""

    file: Path
    first_line: int


def may_be_section(name: str) -> bool:
    """Return whether a file of this name can be a key of a ConfigMap.

    >>> may_be_section("resource-manager"), may_be_section(".policy.swp"), may_be_section("policy~")
    (True, False, False)
    """
    return _KEY.fullmatch(name) is not None


def join_sections(texts: Iterable[tuple[Path, str]]) -> tuple[str, tuple[SectionStart, ...]]:
    """Return the ConfigMap object with these files as keys, '' where all are empty, and where each file begins in it.

    >>> print(join_sections([(Path("/config/policy"), "Active: none")])[0], end="")
    kind: ConfigMap
    data:
     "policy": |1
      Active: none
    """
    chunks, parts, line, is_empty = [_HEAD], [], _HEAD.count("\n") + 1, True
    for file, text in texts:
        is_empty = is_empty and not text.strip("\ufeff \t\r\n")
        # The block's indentation is given (|1), so that what a line is indented more belongs to the text.
        lines = _BREAK.split(text.removeprefix("\ufeff"))
        chunks += [f' "{file.name}": |1\n', *(f"  {each}\n" for each in lines)]
        parts.append(SectionStart(file, line + 1))
        line += 1 + len(lines)
    return "" if is_empty else "".join(chunks), tuple(parts)


def trace_error(error: ConfigError, parts: tuple[SectionStart, ...]) -> ConfigError:
    """Return the same error with the file that its line comes from, and the line there."""
    before = [part for part in parts if part.first_line - 1 <= error.line]
    if not before:
        return error
    line = max(error.line - before[-1].first_line + 1, 1)
    return replace(error, path=str(before[-1].file), line=line)
