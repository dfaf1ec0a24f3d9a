"""Which files of the product are entered meanwhile, on whatever thread."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from types import FrameType

from tests.house.tree import PACKAGES, ROOT

_PREFIXES = tuple(f"{ROOT}/{package}/" for package in PACKAGES)
_TESTS = f"{ROOT}/tests/"


class EnteredFiles:
    """Notes the files whose functions are called between ``begin`` and ``end``, but by a test itself."""

    def __init__(self) -> None:
        self._is_on = False
        self._calls: list[tuple[str, str]] = []

    def begin(self) -> None:
        self._calls.clear()
        self._is_on = True

    def end(self, before: str = "") -> set[str]:
        """The files that were entered, ``before`` this room first was."""
        self._is_on = False
        files = [file for _, file in self._calls]
        return set(takewhile(lambda file: not (before and file.startswith(before)), files))

    def visits(self, room: str) -> int:
        """How often a room was entered from outside of it."""
        return sum(file.startswith(room) and not caller.startswith(room) for caller, file in self._calls)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if not self._is_on or event != "call" or not file.startswith(_PREFIXES):
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if not caller.startswith(_TESTS):
            self._calls.append((caller.removeprefix(f"{ROOT}/"), file.removeprefix(f"{ROOT}/")))


@contextmanager
def entered_files() -> Iterator[EnteredFiles]:
    """Threads that begin in this context are looked at, and this one."""
    entered = EnteredFiles()
    threading.setprofile(entered.note)
    sys.setprofile(entered.note)
    try:
        yield entered
    finally:
        entered.end()
        threading.setprofile(None)
        sys.setprofile(None)
