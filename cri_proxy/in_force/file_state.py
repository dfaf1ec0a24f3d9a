"""Which content of each file counts: its present one, its last good one, or none. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cri_proxy.in_force.text_files import FoundFiles

EMPTY: Final = "is empty: it is being written, or the disk is full; write {} if it lists nothing"


class FileState(StrEnum):
    """What counts of a file: its present content, its last good one, or nothing."""

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


def texts_in_force(found: FoundFiles, kept: Mapping[str, str], judged: Iterable[JudgedFile]) -> dict[str, str]:
    """Return the text that counts of each file: what ``kept`` is to be from now on."""
    present = {file.name: file.text for file in found.files}
    if found.problem:
        present = dict(kept)
    sources = {FileState.IN_FORCE: present, FileState.KEPT: kept}
    return {file.name: sources[file.state][file.name] for file in judged if file.state in sources}


def where_text(found: FoundFiles, file: JudgedFile) -> str:
    """Return the path of a file, with the line of its problem where that is known.

    >>> from pathlib import Path
    >>> where_text(FoundFiles(Path("/d")), JudgedFile("a.yaml", FileState.KEPT, "not YAML", 3))
    '/d/a.yaml:3'
    """
    place = found.place(file.name)
    return f"{place}:{file.line}" if file.line else str(place)


def problem_text(found: FoundFiles, file: JudgedFile) -> str:
    """Return which file cannot be used, why, and what counts of it instead."""
    stays = "its last good content stays in force" if file.state is FileState.KEPT else "nothing of it is in force"
    return f"{where_text(found, file)}: {file.problem}; {stays}"
