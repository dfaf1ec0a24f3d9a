"""Read the files of a directory, or one file, as bounded texts; list what to watch; keep the texts in force."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileRefused, open_beneath
from cri_proxy.in_force.state_file import StateFile
from cri_proxy.in_force.symlinks import ANY, Lookups, lookups_beneath, of_one_generation
from cri_proxy.private_files import shared_problem

SUFFIXES: Final = (".yaml", ".json")
MAX_FILES: Final = 64
MAX_FILE_BYTES: Final = 1 << 20
"""As a ConfigMap holds. What the kernel says of 1,792 CPUs, written with ranges, is a tenth of it."""
MAX_BYTES: Final = 4 << 20
"""Of all files together, and of one that an option names."""
MAX_ENTRIES: Final = 4096
"""Names in the directory, of other files too."""

# What to do about a file that is too large: one of a directory, and one that an option names.
_OF_MANY: Final = "write ranges of names, or several files"
_OF_ONE: Final = "leave out what no pod asks for"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text, or the ``problem`` why it cannot be read ('' = it can), with its ``line`` (0 = unknown)."""

    name: str
    text: str
    problem: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a directory by name, or the one at a path.

    ``problem`` is why the directory cannot be read ('' = it can, or there is none). ``is_one``: the path is the file's.
    """

    path: Path
    files: tuple[TextFile, ...] = ()
    problem: str = ""
    is_one: bool = False

    def place(self, name: str) -> Path:
        """Return the path of a file of this name."""
        return self.path if self.is_one else self.path / name


@dataclass(frozen=True, slots=True)
class TextDirectory:
    """A directory of files, which may appear later, or be replaced."""

    is_one: ClassVar[bool] = False
    path: Path

    def read(self) -> FoundFiles:
        """Return the files that are there now, all of one generation of a ConfigMap volume. Blocks on the disk.

        A missing directory has no files. Links are followed beneath the directory.
        """
        return of_one_generation(self.path, lambda: _read(self.path))

    def lookups(self) -> Lookups:
        """Return the directories on the way to this one and those that hold its files, with the names that matter."""
        return lookups_beneath((self.path, (ANY, *_names_now(self.path))))


@dataclass(frozen=True, slots=True)
class OneTextFile:
    """A file, which may appear later."""

    is_one: ClassVar[bool] = True
    path: Path

    def read(self) -> FoundFiles:
        """Return it as it is now, of one generation of the ConfigMap volume that it is in. Blocks on the disk.

        One that is missing has a problem: it was named. A link is followed beneath the directory of the path, and only
        root may write to what it leads to.
        """
        return of_one_generation(self.path.parent, lambda: FoundFiles(self.path, (_one(self.path),), is_one=True))

    def lookups(self) -> Lookups:
        """Return the directories on the way to this file, with the names that matter. Blocks."""
        return lookups_beneath((self.path.parent, (self.path.name,)))


def _names_now(path: Path) -> tuple[str, ...]:
    try:
        with open_beneath(path) as directory:
            return _names(directory)
    except (OSError, FileRefused):
        return ()


def _read(path: Path) -> FoundFiles:
    try:
        with open_beneath(path) as directory:
            _refuse_shared(directory, path)
            return FoundFiles(path, tuple(_files(directory, path)))
    except FileNotFoundError:
        return FoundFiles(path)
    except (OSError, FileRefused) as error:
        return FoundFiles(path, problem=_reason(error))


def _refuse_shared(directory: DirectoryBeneath, path: Path) -> None:
    """Raise for a directory into which others than root and this user may put files."""
    # The kubelet makes the directories of its volumes with mode 0777, and mounts those of ConfigMaps read-only.
    problem = "" if directory.is_read_only else shared_problem(directory.status, path)
    if problem:
        raise FileRefused(problem)


def _names(directory: DirectoryBeneath) -> tuple[str, ...]:
    """Return the names of cost files, in order: neither hidden files nor what editors leave (``a.yaml~``, ``#a#``)."""
    found = []
    for entries, name in enumerate(directory.names(), start=1):
        if entries > MAX_ENTRIES:
            raise FileRefused(f"has more than {MAX_ENTRIES} files: keep only cost files there")
        if name.endswith(SUFFIXES) and not name.startswith("."):
            found.append(name)
    return tuple(sorted(found))


def _files(directory: DirectoryBeneath, path: Path) -> Iterator[TextFile]:
    """Yield the files of a directory. Raises OSError and FileRefused for the directory itself."""
    left = MAX_BYTES
    for number, name in enumerate(_names(directory), start=1):
        try:
            if number > MAX_FILES:
                raise FileRefused(
                    f"more than {MAX_FILES} cost files; those after it in the order of names are not read"
                )
            text = _text(directory, path / name, MAX_FILE_BYTES, _OF_MANY)
            left -= len(text.encode())
            if left < 0:
                raise FileRefused(f"the cost files up to this one have more than {MAX_BYTES} bytes; write ranges")
            yield TextFile(name, text)
        except FileNotFoundError:
            continue  # removed since
        except (OSError, FileRefused) as error:
            yield _unreadable(name, error)


def _one(path: Path) -> TextFile:
    try:
        with open_beneath(path.parent) as directory:
            return TextFile(path.name, _text(directory, path, MAX_BYTES, _OF_ONE))
    except (OSError, FileRefused) as error:
        return _unreadable(path.name, error)


def _text(directory: DirectoryBeneath, path: Path, most_bytes: int, shorter: str) -> str:
    """Return a file's text. Raises OSError, and FileRefused for anything but a file that only root may change."""
    with directory.file(path.name) as file:
        problem = shared_problem(file.status, path)
        if problem:
            raise FileRefused(problem)
        return file.text(most_bytes, shorter)


def _unreadable(name: str, error: OSError | FileRefused) -> TextFile:
    return TextFile(name, "", _reason(error), error.line if isinstance(error, FileRefused) else 0)


def _reason(error: OSError | FileRefused) -> str:
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error.problem


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """The texts in force of a directory's files, or of the one file at a path, as (name, text) by name."""

    directory: Path
    texts: tuple[tuple[str, str], ...] = ()


def texts_file(name: str) -> StateFile[KeptTexts]:
    """Return the document of this name that holds texts."""
    # JSON writes a control character with six bytes.
    return StateFile(name, 6 * MAX_BYTES + (1 << 20), _written, _kept)


def _written(kept: KeptTexts) -> Mapping[str, object]:
    return {"directory": str(kept.directory), "texts": dict(kept.texts)}


def _kept(document: Mapping[str, object]) -> KeptTexts:
    texts, directory = document.get("texts"), document.get("directory")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError
    return KeptTexts(Path(str(directory)), tuple(sorted(texts.items())))
