"""``Installation``: carry a journal forward, or back, until it rests. Killed at any point, it goes on from there."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.installer.host import Content, HostFailed, NodeHost
from cri_proxy.installer.journal import Action, InstallJournal, InstallPhase, JournalFile
from cri_proxy.kubelet.edit_text import edited
from cri_proxy.kubelet.edits import Edit
from cri_proxy.logs import Log

STEP: Final = "installer_step"
UNDONE: Final = "installer_undone"
TURNED: Final = "installer_turned_back"
ENDED: Final = "installer_ended"


@dataclass(frozen=True, slots=True)
class Check:
    """A state to wait for, for so long at most; once there it must last ``steady_seconds``.

    What ``begin`` returns is asked again and again why it is not there, and answers '' once it is.
    """

    begin: Callable[[], Callable[[], str]]
    bound_seconds: float
    steady_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Time: ``now`` in seconds since some fixed moment, ``pause`` waits between two looks of ``pause_seconds``."""

    now: Callable[[], float]
    pause: Callable[[float], None]
    pause_seconds: float = 2.0


class Installation:
    """The journal of a host, and what carries it out."""

    def __init__(
        self, host: NodeHost, file: JournalFile, checks: Mapping[str, Check], waiting: Waiting, *, log: Log
    ) -> None:
        """Nothing is read yet. ``checks`` are named by the actions that wait for them."""
        self._host = host
        self._file = file
        self._checks = checks
        self._waiting = waiting
        self._log = log

    @property
    def journal(self) -> InstallJournal | None:
        """Return the journal as it stands on the host. Raises HostFailed."""
        return self._file.load()

    def begin(self, journal: InstallJournal) -> None:
        """Start this one. Raises HostFailed."""
        with self._file.locked():
            self._file.save(journal)

    def turn_back(self, reason: str) -> None:
        """Let an installation that is on its way go back. Raises HostFailed."""
        with self._file.locked():
            journal = self._file.load()
            if journal is not None and journal.phase is InstallPhase.FORWARD:
                self._log.warning(TURNED, reason=reason)
                self._file.save(journal.turned(reason))

    def uninstall(self) -> None:
        """Let what is installed go back, to a host without us. Raises HostFailed."""
        with self._file.locked():
            journal = self._file.load()
            if journal is not None and (journal.base or journal.phase is InstallPhase.DONE):
                actions = journal.base or journal.actions
                back = replace(journal, actions=actions, base=(), base_release="", position=len(actions))
                self._file.save(back.turned(""))

    def report(self) -> None:
        """Note that the failure has been told. Raises HostFailed."""
        with self._file.locked():
            journal = self._file.load()
            if journal is not None:
                self._file.save(replace(journal, is_reported=True))

    def run(self) -> InstallJournal | None:
        """Carry the journal on until it rests, and return it; None once nothing is installed.

        Raises HostFailed where the way back cannot be gone on with now.
        """
        while True:
            with self._file.locked():
                journal = self._file.load()
                if journal is None:
                    return None
                if journal.phase is InstallPhase.FAILED:
                    return journal
                if journal.phase is InstallPhase.DONE:
                    self._settle(journal)
                    return journal
                ahead = self._forward(journal) if journal.phase is InstallPhase.FORWARD else self._back(journal)
                self._file.save(ahead)
            if ahead is not None and ahead.phase is InstallPhase.FORWARD and ahead.position == journal.position:
                self._wait(ahead)  # others may turn it back meanwhile

    def _forward(self, journal: InstallJournal) -> InstallJournal:
        """Return the journal after its next action; the same where that waits for something."""
        if journal.position == len(journal.actions):
            return self._done(journal)
        action = journal.actions[journal.position]
        self._log.info(STEP, step=action.name, release=journal.release)
        if action.until:
            return journal
        try:
            self._do(action)
        except HostFailed as error:
            self._log.warning(TURNED, reason=str(error))
            return journal.turned(f"{action.name}: {error}")
        return replace(journal, position=journal.position + 1)

    def _done(self, journal: InstallJournal) -> InstallJournal:
        """Return the journal at rest; the release before this one is needed no more."""
        if journal.base_release not in ("", journal.release):
            self._host.remove_release(journal.base_release)
        self._log.info(ENDED, release=journal.release)
        # The way back to a host without us removes this release, and else goes as from the first one.
        base = (replace(each, release=each.release and journal.release) for each in journal.base or journal.actions)
        return replace(journal, phase=InstallPhase.DONE, base=tuple(base), base_release=journal.release)

    def _wait(self, journal: InstallJournal) -> None:
        """Wait for the check of the next action, and note how that ended, unless it is on its way back by then."""
        action = journal.actions[journal.position]
        problem = self.wait_for(self._checks[action.until], self._is_over)
        with self._file.locked():
            now = self._file.load()
            if now is None or now.phase is not InstallPhase.FORWARD or now.position != journal.position:
                return
            if problem:
                self._log.warning(TURNED, reason=problem)
            ahead = now.turned(f"{action.name}: {problem}") if problem else replace(now, position=now.position + 1)
            self._file.save(ahead)

    def wait_for(self, check: Check, is_over: Callable[[], bool] = lambda: False) -> str:
        """Wait until the check holds for as long as it must; return why it does not within its bound, '' if it does.

        ``is_over`` ends it before.
        """
        now, look = self._waiting.now, check.begin()
        end, since = now() + check.bound_seconds, None
        while True:
            problem = look()
            since = (now() if since is None else since) if not problem else None
            if since is not None and now() - since >= check.steady_seconds:
                return ""
            if now() >= end or is_over():
                return problem or "it held for too short a time"
            self._waiting.pause(self._waiting.pause_seconds)

    def _is_over(self) -> bool:
        """Return whether the installation was turned back meanwhile, by the guard."""
        journal = self._file.load()
        return journal is None or journal.phase is not InstallPhase.FORWARD

    def _back(self, journal: InstallJournal) -> InstallJournal | None:
        """Return the journal after one action less; None after the last one of an uninstallation."""
        # The action at the position may be done in part, and is undone too; behind the last one there is none.
        position = min(journal.position, len(journal.actions) - 1)
        if position >= 0:
            action = journal.actions[position]
            self._log.info(UNDONE, step=action.name, release=journal.release)
            self._undo(action)
            return replace(journal, position=position - 1)
        self._log.info(ENDED, release=journal.installed, reason=journal.reason)
        return replace(journal, phase=InstallPhase.FAILED, position=0) if journal.reason else None

    def _settle(self, journal: InstallJournal) -> None:
        for action in reversed(journal.actions):
            if action.is_guard:
                self._undo(action)

    def _do(self, action: Action) -> None:
        # Each part is looked at before: killed in the middle of an action, the next process does it again.
        if action.release and not self._host.has_release(action.release):
            self._host.add_release(action.release)
        if action.path and self._host.read(action.path) != action.new:
            self._host.write(action.path, action.new)
        for command in action.do:
            self._host.run(command)

    def _undo(self, action: Action) -> None:
        for command in action.undo:
            with suppress(HostFailed):  # what does not stop must not keep the rest from going back
                self._host.run(command)
        if action.path:
            self._restore(action)
        if action.release:
            self._host.remove_release(action.release)

    def _restore(self, action: Action) -> None:
        found = self._host.read(action.path)
        if found == action.old:
            return
        # A file of the installer's alone goes back, whatever it holds by now.
        if found == action.new or not (action.edit or action.is_of_operator):
            self._host.write(action.path, action.old)
            return
        # A file that others have removed, or that the operator has changed, stays so.
        if found is None or action.edit is None:
            return
        # Others have changed the file since: only the edited key goes back, and only while it has the new value.
        there = Edit(action.path, action.edit.key, action.edit.value)
        with suppress(ValueError):  # a file that is no configuration any more is its owner's
            if edited(found.text, there) == found.text:  # it has our value
                before = Edit(action.path, action.edit.key, action.edit.before)
                self._host.write(action.path, Content(edited(found.text, before), found.mode))
