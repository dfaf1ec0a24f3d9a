"""Errors of reading a machine: each names the file or source, and what is wrong with it."""

from dataclasses import dataclass


class SysfsBaseError(Exception):
    """Base class of this package's errors."""


@dataclass(eq=False)
class SysfsError(SysfsBaseError):
    """A file of the tree has invalid content.

    ``path`` is relative to the root of the tree; ``expected`` and ``got`` are short phrases.
    """

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.got}"


class FileMissing(SysfsError):
    """A file, directory or link does not exist. Callers with a documented fallback catch it."""


@dataclass(eq=False)
class MachineSourceError(SysfsBaseError):
    """A machine source (directory, archive, description) cannot be used; ``problem`` is why, and what to do."""

    source: str
    problem: str

    def __str__(self) -> str:
        return f"machine {self.source!r}: {self.problem}"
