"""With what versions the tests have passed: stages note it, ``make docs`` writes it into docs/reference/versions.md.

A note is made where a whole stage has passed, so that a row is never more than what was played. The page keeps the rows
of other days and machines.
"""

import json
import platform
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

NOTES: Final = Path(__file__).resolve().parent.parent / ".cache" / "tried.jsonl"


def note(played: str, found: Iterable[tuple[str, str]], path: Path = NOTES, day: str = "") -> None:
    """Note that this was played with these parts, each with its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    when = day or datetime.now(UTC).date().isoformat()
    with path.open("a") as file:
        for part, version in found:
            file.write(f"{json.dumps([part, version, played, when])}\n")


def has_passed_whole(session: pytest.Session, exitstatus: int) -> bool:
    """Whether this is a stage of tests/stages.py, which alone asks for a report, and all of it passed."""
    return exitstatus == 0 and bool(session.config.option.xmlpath)


def here() -> Iterator[tuple[str, str]]:
    """The parts of this machine."""
    yield "kernel", platform.release()
    yield "distribution", platform.freedesktop_os_release()["PRETTY_NAME"]
    yield "Python", platform.python_version()
    for program in ("containerd", "runc"):
        words = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()
        yield program, next(word.lstrip("v") for word in words if word.lstrip("v")[:1].isdigit())


def of_image(info: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of the emulated machine's disk, by the names of its packages."""
    yield "kernel", info["kernel"]
    for name in info["packages"]:
        package, version, *_ = name.removesuffix(".deb").split("_")
        if package in ("containerd", "runc", "systemd"):
            yield package, version.replace("%3a", ":")
