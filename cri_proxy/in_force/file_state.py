"""Which content of each file counts: its present one, its last good one, or none. Pure."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cri_proxy.in_force.report import FileState, JudgedFile
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.yaml_fields import DocumentError

T = TypeVar("T")

EMPTY: Final = "is empty: it is being written, or the disk is full; write {} if it lists nothing"


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """The joined content of files; ``files`` by name."""

    content: T
    files: tuple[JudgedFile, ...] = ()


def judge_one(found: FoundFiles, kept: Mapping[str, str], read: Callable[[str, str], T], nothing: T) -> Judged[T]:
    """Return the content of one file, or its last good one, of which ``kept`` has the text.

    ``read`` gets name and text, and raises DocumentError.
    """
    for file in found.files or tuple(TextFile(name, "", found.problem) for name in kept):
        try:
            return Judged(_content(file, read), (JudgedFile(file.name, FileState.IN_FORCE),))
        except DocumentError as error:
            before, state = nothing, FileState.REJECTED
            if file.name in kept:
                with suppress(DocumentError):
                    before, state = _content(TextFile(file.name, kept[file.name]), read), FileState.KEPT
            return Judged(before, (JudgedFile(file.name, state, error.problem, error.line),))
    return Judged(nothing)


def _content(file: TextFile, read: Callable[[str, str], T]) -> T:
    if file.problem:
        raise DocumentError(file.name, file.line, file.problem)
    if not file.text.strip():
        raise DocumentError(file.name, 0, EMPTY)
    return read(file.name, file.text)


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


def problems_of(found: FoundFiles, files: Iterable[JudgedFile]) -> tuple[str, ...]:
    """Return why files cannot be used, with path and line."""
    own = [f"{found.path}: {found.problem}"] if found.problem else []
    return (*own, *(f"{where_text(found, file)}: {file.problem}" for file in files if file.problem))
