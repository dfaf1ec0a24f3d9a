"""``InstallJournal``: what is done to a host, action by action, and what was there before; kept in ``JournalFile``."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from cri_proxy.codec import CodecError, decode, encode
from cri_proxy.installer.host import BASE, Content, HostFailed
from cri_proxy.private_files import open_directory, replace_file

DIRECTORY: Final = f"{BASE}/installer"
_FILE: Final = "journal.json"
_LOCK: Final = "lock"
_MODE: Final = 0o600


class InstallPhase(StrEnum):
    """Where an installation is: on its way, on its way back, at rest with the new release, or without it."""

    FORWARD = "forward"
    BACK = "back"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class KubeletEdit:
    """One key of a kubelet's file: the value that it gets, and the one that it had, None for none."""

    key: str
    value: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """One step, named for people, and its way back. It may be done, and undone, any number of times.

    ``release`` is one to copy. The file ``path`` gets ``new`` in the place of ``old`` (None: no file); with an ``edit``
    a file that others have changed since gets only that key back. ``do`` and ``undo`` are commands. ``until`` names the
    check that must hold. ``is_guard``: undone as well once all is done. ``is_of_operator``: the file stays once
    others have changed it.
    """

    name: str
    release: str = ""
    path: str = ""
    new: Content | None = None
    old: Content | None = None
    edit: KubeletEdit | None = None
    do: tuple[tuple[str, ...], ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    until: str = ""
    is_guard: bool = False
    is_of_operator: bool = False


@dataclass(frozen=True, slots=True)
class InstallJournal:
    """``actions`` lead to ``release``; the first ``position`` of them are done, and the next may be in part.

    ``reason`` is why it goes or went back, '' for an uninstallation. ``base`` are the actions of the installation that
    an upgrade started from: the way back to a host without us. ``base_release`` is its release.
    """

    release: str
    actions: tuple[Action, ...]
    phase: InstallPhase = InstallPhase.FORWARD
    position: int = 0
    reason: str = ""
    base: tuple[Action, ...] = ()
    base_release: str = ""
    is_reported: bool = False

    @property
    def installed(self) -> str:
        """Return the release that the host runs, or goes back to; '' for none."""
        return self.release if self.phase is InstallPhase.DONE else self.base_release

    def turned(self, reason: str) -> "InstallJournal":
        """Return the journal on its way back."""
        return replace(self, phase=InstallPhase.BACK, reason=reason)


class JournalFile:
    """The journal of the host below ``root``. One process at a time acts on it, under ``locked``."""

    def __init__(self, root: Path) -> None:
        """Nothing is read yet."""
        self._place = root / DIRECTORY.lstrip("/")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for other processes, the pod's or the host's, and keep them out. Raises HostFailed."""
        place = self._place
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise HostFailed(f"{place}: cannot lock: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def load(self) -> InstallJournal | None:
        """Return the journal, None where there is none. Raises HostFailed."""
        path = self._place / _FILE
        try:
            return decode(InstallJournal, json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, CodecError) as error:
            raise HostFailed(f"{path}: cannot be read: {error}; see docs/fleet.md for the way back by hand") from error

    def save(self, journal: InstallJournal | None) -> None:
        """Have this journal, on the disk when this returns; None: have none. Raises HostFailed."""
        try:
            if journal is None:
                (self._place / _FILE).unlink(missing_ok=True)
                return
            with open_directory(self._place) as directory:
                text = json.dumps(encode(journal), indent=1).encode()
                replace_file(directory, _FILE, text, _MODE, is_synced=True)
        except OSError as error:
            raise HostFailed(f"{self._place}: cannot write the journal: {error.strerror}") from error
