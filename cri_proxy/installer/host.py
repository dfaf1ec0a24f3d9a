"""The host below a directory: its files, its releases, and commands that run in it. Blocks."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from cri_proxy.errors import CriProxyError

BASE: Final = "/opt/cri-proxy"
"""Holds a directory for each release, the link ``current`` and the installer's own directory."""
CURRENT: Final = f"{BASE}/current"
_SECONDS: Final = 120.0
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"


class HostFailed(CriProxyError):
    """A file of the host cannot be read or written, or a command in it failed."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file with its mode, or a symbolic link to ``target``."""

    text: str = ""
    mode: int = 0o644
    target: str = ""


class NodeHost(Protocol):
    """What the installer does to a host. Paths are the host's. All raise HostFailed."""

    def read(self, path: str) -> Content | None:
        """Return a file or link, None where there is none."""

    def write(self, path: str, content: Content | None) -> None:
        """Have this file or link, as a whole or not at all; None: have none."""

    def has_release(self, release: str) -> bool:
        """Return whether this release is there, whole."""

    def add_release(self, release: str) -> None:
        """Copy the release of this image."""

    def remove_release(self, release: str) -> None:
        """Remove a release, if it is there."""

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end."""


class MountedHost:
    """The host that this process is in, with its files below ``root``. ``tree`` is the release of the image."""

    def __init__(self, root: Path, tree: Path) -> None:
        """Nothing is read yet."""
        self._root = root
        self._tree = tree

    def read(self, path: str) -> Content | None:
        """See ``NodeHost``."""
        place = self._place(path)
        try:
            if place.is_symlink():
                return Content(target=str(place.readlink()))
            return Content(place.read_text(), place.stat().st_mode & 0o7777)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise HostFailed(f"{path}: cannot read: {error}") from error

    def write(self, path: str, content: Content | None) -> None:
        """See ``NodeHost``."""
        place = self._place(path)
        new = place.with_name(f".{place.name}.cri-proxy-new")
        try:
            if content is None:
                place.unlink(missing_ok=True)
                if place.parent.name.endswith((".d", "cri-proxy")):
                    with suppress(OSError):  # one that others use stays
                        place.parent.rmdir()
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            # Left by a process that was killed.
            new.unlink(missing_ok=True)
            if content.target:
                new.symlink_to(content.target)
            else:
                with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, content.mode), "w") as file:
                    # open(2) takes away the bits of the umask.
                    os.fchmod(file.fileno(), content.mode)
                    file.write(content.text)
                    file.flush()
                    # Before the rename: else a power cut may leave the name with an empty file.
                    os.fsync(file.fileno())
            new.rename(place)
        except OSError as error:
            raise HostFailed(f"{path}: cannot write: {error.strerror}") from error

    def has_release(self, release: str) -> bool:
        """See ``NodeHost``."""
        # Whole, since it gets this name only once all of it is on the disk.
        return self._place(f"{BASE}/{release}").is_dir()

    def add_release(self, release: str) -> None:
        """See ``NodeHost``."""
        place = self._place(f"{BASE}/{release}")
        new = place.with_name(f".{release}.new")
        try:
            # A copy that a kill has ended is not whole.
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(self._tree, new, symlinks=True)
            self._sync()
            new.rename(place)
        except (OSError, shutil.Error) as error:
            raise HostFailed(f"{place}: cannot copy the release: {error}") from error

    def remove_release(self, release: str) -> None:
        """See ``NodeHost``."""
        place = self._place(f"{BASE}/{release}")
        try:
            if place.is_dir():
                shutil.rmtree(place)
        except OSError as error:
            raise HostFailed(f"{place}: cannot remove: {error.strerror}") from error

    def run(self, command: Sequence[str]) -> None:
        """See ``NodeHost``."""
        words = " ".join(command)
        try:
            done = subprocess.run(
                [*command],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                # The environment of this process is that of its image, and not the host's.
                env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired as error:
            raise HostFailed(f"{words}: not done after {_SECONDS:.0f} s") from error
        except OSError as error:
            raise HostFailed(f"{words}: {error.strerror}") from error
        if done.returncode:
            raise HostFailed(f"{words}: exit status {done.returncode}: {done.stdout.strip()[-400:]}")

    def _sync(self) -> None:
        """Have all that was copied on the disk: thousands of files, one by one, would take minutes."""
        os.sync()

    def _place(self, path: str) -> Path:
        return self._root / path.lstrip("/")
