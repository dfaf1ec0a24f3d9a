"""Which files of the product are entered meanwhile, on whatever thread."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tests.house.tree import PACKAGES, ROOT

_PREFIXES = tuple(f"{ROOT}/{package}/" for package in PACKAGES)
_TESTS = f"{ROOT}/tests/"


class EnteredFiles:
    """Notes the files whose functions are called between ``begin`` and ``end``, but by a test itself."""

    def __init__(self) -> None:
        self._is_on = False
        self.files: set[str] = set()

    def begin(self) -> None:
        self.files.clear()
        self._is_on = True

    def end(self) -> set[str]:
        self._is_on = False
        return set(self.files)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if not self._is_on or event != "call" or not file.startswith(_PREFIXES):
            return
        caller = frame.f_back
        if caller is None or not caller.f_code.co_filename.startswith(_TESTS):
            self.files.add(file.removeprefix(f"{ROOT}/"))


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
