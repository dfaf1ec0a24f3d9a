"""The directories that containers see at ``/.cri-proxy``: made, written file by file, and collected. Blocks.

``<root>/<pod uid>/<container name>/``, of which a container gets its own, read-only. A file is replaced by a rename in
its directory, so that readers find the old or the new one whole and inotify on the directory tells them
(rename(2), inotify(7)). A directory is never replaced: a running container would keep the old one.
Pods choose the names, so what is not plainly a name is written as a hash, and no symbolic link is followed.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.node.resource_files.contents import Facts, as_json, as_shell, generation_in
from cri_proxy.private_files import open_directory, read_file, replace_file, shared_problem
from policies.base import ContainerKey

SHELL: Final = "resources.sh"
JSON: Final = "resources.json"
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# A pod's directory can be collected between the two steps in which a container's is made.
_ATTEMPTS = 3


@dataclass(eq=False)
class TellingError(CriProxyError):
    """A container's directory cannot be made, written or removed: the path, the problem and the remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Two names below the root: the pod's directory and the container's."""

    pod: str
    container: str

    def below(self, root: Path) -> Path:
        """The directory itself."""
        return root / self.pod / self.container


def place_of(key: ContainerKey) -> Place:
    """Where this container's files are; two containers never have the same place."""
    return Place(_encoded(key.pod_uid), _encoded(key.name))


def _encoded(name: str) -> str:
    """The name itself where it is plainly a name of one directory, else a hash behind a mark that no name starts with.

    >>> _encoded("app"), _encoded("../etc")[:9]
    ('app', '=f7f9121f')
    """
    if _PLAIN.fullmatch(name):
        return name
    return "=" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def write(root: Path, place: Place, facts: Facts) -> bool:
    """Bring both files up to date; False when they were already. Makes what is missing. Raises TellingError."""
    with _as_telling_error(place.below(root)):
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return _write(root, place, facts)
        return _write(root, place, facts)


def _write(root: Path, place: Place, facts: Facts) -> bool:
    root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    with open_directory(root) as top, _made(top, place.pod) as pod, _made(pod, place.container) as directory:
        told, shell = _text_of(directory, JSON), as_shell(facts)
        generation = generation_in(told)
        if told == as_json(facts, generation) and _text_of(directory, SHELL) == shell:
            return False
        # The one with the generation comes last: who waits for it finds the other one ready.
        _replace(directory, SHELL, shell)
        _replace(directory, JSON, as_json(facts, generation + 1))
        return True


def places(root: Path) -> tuple[Place, ...]:
    """All directories that there are, ascending; none without the root. Raises TellingError."""
    with _as_telling_error(root):
        try:
            with open_directory(root) as top:
                return tuple(sorted(Place(pod, name) for pod in _names(top) for name in _names_in(top, pod)))
        except FileNotFoundError:
            return ()


def remove(root: Path, place: Place) -> None:
    """Remove a container's directory, and its pod's with the last one; one that is gone is no error.

    Raises TellingError.
    """
    with _as_telling_error(place.below(root)), suppress(FileNotFoundError), open_directory(root) as top:
        with _existing(top, place.pod) as pod:
            with _existing(pod, place.container) as directory, os.scandir(directory) as entries:
                for name in [entry.name for entry in entries]:
                    os.unlink(name, dir_fd=directory)
            os.rmdir(place.container, dir_fd=pod)
        with suppress(OSError):  # not empty: another container of the pod is told too
            os.rmdir(place.pod, dir_fd=top)


@contextmanager
def _as_telling_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        raise TellingError(str(path), f"{what}{error.strerror or error}; check the directory and its disk") from error


@contextmanager
def _existing(at: int, name: str) -> Iterator[int]:
    """A directory of ours: refused when others could have changed it."""
    with open_directory(name, at) as descriptor:
        problem = shared_problem(os.fstat(descriptor), name)
        if problem:
            raise PermissionError(1, problem, name)
        yield descriptor


@contextmanager
def _made(at: int, name: str) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(name, _DIRECTORY_MODE, dir_fd=at)
    with _existing(at, name) as descriptor:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != _DIRECTORY_MODE:  # the umask, or somebody's hand
            os.fchmod(descriptor, _DIRECTORY_MODE)
        yield descriptor


def _names(at: int) -> list[str]:
    """Directories in this one; what else lies there is not ours."""
    with os.scandir(at) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _names_in(at: int, name: str) -> list[str]:
    with open_directory(name, at) as descriptor:
        return _names(descriptor)


def _text_of(directory: int, name: str) -> str:
    """A file of ours; '' for anything else of that name: it is then replaced."""
    try:
        return read_file(directory, name, _FILE_MODE).decode(errors="replace")
    except OSError:
        return ""


def _replace(directory: int, name: str, text: str) -> None:
    """Replace a file. Not synced: after a crash of the node no container is left to read it."""
    replace_file(directory, name, text.encode("ascii"), _FILE_MODE, is_synced=False)
