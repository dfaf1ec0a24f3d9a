"""Create, list and remove the host directories behind ``/.cri-proxy``, and replace their files when changed. Blocks.

Each is ``<root>/<pod uid>/<container name>/``, mounted read-only. A file is replaced by a rename in its directory:
readers find the old or the new one whole, and inotify on the directory reports it (rename(2), inotify(7)).
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

from cri_proxy.errors import FileError
from cri_proxy.node.resource_files.contents import ContainerResources, as_json, as_shell, generation_in
from cri_proxy.private_files import open_directory, read_file, replace_file, shared_problem
from policies.base import ContainerKey

SHELL: Final = "resources.sh"
JSON: Final = "resources.json"
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# A pod's directory can be collected between the two steps in which a container's is made.
_ATTEMPTS = 3


class ResourceFilesError(FileError):
    """A container's directory cannot be made, written or removed."""


@dataclass(frozen=True, slots=True, order=True)
class ContainerDirectory:
    """The names of a container's directory and its pod's, below the root."""

    pod: str
    container: str

    def below(self, root: Path) -> Path:
        """Return its path."""
        return root / self.pod / self.container


def directory_of(key: ContainerKey) -> ContainerDirectory:
    """Return the directory of this container; no two containers share one."""
    return ContainerDirectory(_encoded(key.pod_uid), _encoded(key.name))


def _encoded(name: str) -> str:
    """Return the name where it is plainly a directory's, else a hash behind a mark that no name starts with.

    >>> _encoded("app"), _encoded("../etc")[:9]
    ('app', '=f7f9121f')
    """
    # Pods choose these names: neither may leave the root.
    if _PLAIN.fullmatch(name):
        return name
    return "=" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def write_files(root: Path, where: ContainerDirectory, resources: ContainerResources) -> bool:
    """Bring both files up to date; False when they were already. Makes what is missing. Raises ResourceFilesError."""
    with _as_resource_files_error(where.below(root)):
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return _write(root, where, resources)
        return _write(root, where, resources)


def _write(root: Path, where: ContainerDirectory, resources: ContainerResources) -> bool:
    # A directory that exists is kept: a running container would go on with the one that it has mounted.
    root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    with open_directory(root) as top, _made(top, where.pod) as pod, _made(pod, where.container) as directory:
        present, shell = _text_of(directory, JSON), as_shell(resources)
        generation = generation_in(present)
        # With the same generation: what readers see as a change is a change of the resources alone.
        if present == as_json(resources, generation) and _text_of(directory, SHELL) == shell:
            return False
        # The file with the generation comes last: a program that waits for it finds the other one ready.
        _replace(directory, SHELL, shell)
        _replace(directory, JSON, as_json(resources, generation + 1))
        return True


def list_directories(root: Path) -> tuple[ContainerDirectory, ...]:
    """Return the directories that exist, ascending; none without the root. Raises ResourceFilesError."""
    with _as_resource_files_error(root), suppress(FileNotFoundError), open_directory(root) as top:
        return tuple(sorted(ContainerDirectory(pod, name) for pod in _names(top) for name in _names_in(top, pod)))
    return ()


def remove_directory(root: Path, where: ContainerDirectory) -> None:
    """Remove a container's directory, and its pod's with the last one; one that is gone is no error.

    Raises ResourceFilesError.
    """
    with _as_resource_files_error(where.below(root)), suppress(FileNotFoundError), open_directory(root) as top:
        with _existing(top, where.pod) as pod:
            with _existing(pod, where.container) as directory, os.scandir(directory) as entries:
                for name in [entry.name for entry in entries]:
                    os.unlink(name, dir_fd=directory)
            os.rmdir(where.container, dir_fd=pod)
        with suppress(OSError):  # not empty: another container of the pod has files too
            os.rmdir(where.pod, dir_fd=top)


@contextmanager
def _as_resource_files_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        problem = f"{what}{error.strerror or error}; check the directory and its disk"
        raise ResourceFilesError(str(path), problem) from error


@contextmanager
def _existing(at: int, name: str) -> Iterator[int]:
    """Open a directory that we have made; refuse it when others could have changed it."""
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
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != _DIRECTORY_MODE:  # by the umask, or changed by hand
            os.fchmod(descriptor, _DIRECTORY_MODE)
        yield descriptor


def _names(at: int) -> list[str]:
    """Return the directories in this one; other entries are not ours."""
    with os.scandir(at) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _names_in(at: int, name: str) -> list[str]:
    with open_directory(name, at) as descriptor:
        return _names(descriptor)


def _text_of(directory: int, name: str) -> str:
    """Return the text of our file; '' for anything else of that name, which is then replaced."""
    try:
        return read_file(directory, name, _FILE_MODE).decode(errors="replace")
    except OSError:
        return ""


def _replace(directory: int, name: str, text: str) -> None:
    """Replace a file. Not synced: after a crash of the node no container is left to read it."""
    replace_file(directory, name, text.encode("ascii"), _FILE_MODE, is_synced=False)
