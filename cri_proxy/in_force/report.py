"""Frozen values of how files stand, for status, metrics and warnings."""

from dataclasses import dataclass
from enum import StrEnum


class FileState(StrEnum):
    """The content of a file that counts: its present content, its last good one, or nothing."""

    IN_FORCE = "in_force"
    KEPT = "kept"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file, and why its present content is not in force ('' = it is), with the line (0 = unknown)."""

    name: str
    state: FileState
    problem: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class FilesReport:
    """How files stand: what status, metrics and warnings are made of.

    ``problem`` is why they cannot be read ('' = they can, or there are none): then what they said before stays in
    force. ``since_seconds``, since the epoch, is when what is in force became so. ``applied``, ``unchanged`` and
    ``rejected`` count their changes since the start.
    """

    since_seconds: float
    files: tuple[JudgedFile, ...] = ()
    problem: str = ""
    applied: int = 0
    unchanged: int = 0
    rejected: int = 0

    @property
    def is_good(self) -> bool:
        """Return whether every file's present content is in force."""
        return not self.problem and not any(file.problem for file in self.files)
