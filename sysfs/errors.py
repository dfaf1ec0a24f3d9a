"""What can go wrong when reading a machine: always the file, what was expected and what was found."""

from dataclasses import dataclass


class SysfsBaseError(Exception):
    """Base of everything that this package raises."""


@dataclass(eq=False)
class SysfsError(SysfsBaseError):
    """A file of the tree that cannot be believed.

    ``path`` is relative to the root that was given, ``expected`` and ``got`` are short phrases.
    """

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.got}"


class FileMissing(SysfsError):
    """The file, directory or link does not exist: callers that have a documented fallback catch this one."""


@dataclass(eq=False)
class MachineSourceError(SysfsBaseError):
    """A machine source (directory, archive, description) that cannot be used: what, why and the remedy."""

    source: str
    problem: str

    def __str__(self) -> str:
        return f"machine {self.source!r}: {self.problem}"
