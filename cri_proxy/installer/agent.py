"""``InstallAgent``: what one node's pod does, by its Node's label and by whose turn it is in the cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.errors import CriProxyError
from cri_proxy.installer.cluster import INSTALL, UNINSTALL, ClusterNode
from cri_proxy.installer.host import HostFailed, NodeHost
from cri_proxy.installer.journal import InstallJournal, InstallPhase
from cri_proxy.installer.machine import Check, Installation
from cri_proxy.installer.plan import CannotInstall, Wanted, plan
from cri_proxy.kube_api.lease import LeaseState, Turn
from cri_proxy.logs import Log

AWAY: Final = "installer_cluster_away"
HELD_UP: Final = "installer_held_up"
BEGUN: Final = "installer_begun"
FAILED: Final = "installer_failed"


class Todo(Enum):
    """What comes next for this node."""

    REST = auto()  # nothing, and nothing is held
    WAIT = auto()  # for another node, or for a person
    GO_ON = auto()  # with what was begun
    INSTALL = auto()
    UNINSTALL = auto()
    REPORT = auto()  # a failure, which keeps the turn

    @property
    def is_rest(self) -> bool:
        """Return whether nothing is to be done."""
        return self is Todo.REST


def next_todo(journal: InstallJournal | None, node: ClusterNode, held: LeaseState, name: str, release: str) -> Todo:
    """Return what comes next; pure."""
    if journal is not None and journal.phase in (InstallPhase.FORWARD, InstallPhase.BACK):
        return Todo.GO_ON
    if journal is not None and journal.phase is InstallPhase.FAILED and not journal.is_reported:
        return Todo.REPORT
    # After a failure no node begins, be the turn free: the next one would most likely fail in the same way.
    if held.holder not in ("", name) or held.failure:
        return Todo.WAIT
    installed = "" if journal is None else journal.installed
    if node.wanted == UNINSTALL and installed:
        return Todo.UNINSTALL
    if node.wanted == INSTALL and installed != release:
        # A node that is not Ready has another illness, which would be taken for ours.
        return Todo.INSTALL if node.is_ready else Todo.WAIT
    return Todo.REST


@dataclass(frozen=True, slots=True)
class Site:
    """The node: its ``name``, its ``host`` below ``root``, and what is ``wanted`` there.

    ``ask`` asks the API server for the Node, ``look`` looks at the host; both block.
    """

    name: str
    host: NodeHost
    root: Path
    wanted: Wanted
    ask: Callable[[], ClusterNode]
    look: Callable[[], HostFacts]


class InstallAgent:
    """One node's installer. All of it blocks."""

    def __init__(self, site: Site, installation: Installation, turn: Turn, *, removed: Check, log: Log) -> None:
        """Nothing is done yet. ``removed`` must hold after an uninstallation."""
        self._site = site
        self._installation = installation
        self._turn = turn
        self._removed = removed
        self._log = log

    def settle(self) -> None:
        """Stop the guard of an installation that is done, where a kill has left it."""
        try:
            journal = self._installation.journal
            if journal is not None and journal.phase is InstallPhase.DONE:
                self._installation.run()
        except HostFailed as error:
            self._log.warning(HELD_UP, problem=str(error))

    def step(self) -> Todo:
        """Do what comes next, to its end, and return what that was."""
        try:
            journal = self._installation.journal
            try:
                node, held = self._site.ask(), self._turn.look()
            except CriProxyError as error:
                self._log.warning(AWAY, problem=str(error))
                return self._without_cluster(journal)
            todo = next_todo(journal, node, held, self._site.name, self._site.wanted.release)
            self._act(todo, journal, held)
        except CriProxyError as error:
            self._log.warning(HELD_UP, problem=str(error))
            return Todo.WAIT
        return todo

    def _without_cluster(self, journal: InstallJournal | None) -> Todo:
        """What was begun is ended, since half done is worse; a Node of which nothing is known counts as not Ready."""
        if journal is None or journal.phase not in (InstallPhase.FORWARD, InstallPhase.BACK):
            return Todo.WAIT
        self._installation.run()
        return Todo.GO_ON

    def _act(self, todo: Todo, journal: InstallJournal | None, held: LeaseState) -> None:
        match todo:
            case Todo.GO_ON:
                self._turn.take()  # it is ours already, or was deleted
                self._go_on()
            case Todo.REPORT if journal is not None:
                self._report(journal.reason)
            case Todo.INSTALL | Todo.UNINSTALL:
                if self._turn.take():
                    self._begin(todo, journal)
            case Todo.REST if held.holder == self._site.name:
                self._turn.release()

    def _begin(self, todo: Todo, journal: InstallJournal | None) -> None:
        self._log.info(BEGUN, what=todo.name.lower(), release=self._site.wanted.release)
        if todo is Todo.UNINSTALL:
            self._installation.uninstall()
        else:
            try:
                made = plan(self._site.host, self._site.root, self._site.look(), self._site.wanted, journal)
            except (CannotInstall, HostFailed) as error:
                self._log.warning(FAILED, problem=str(error))
                self._turn.fail(str(error))
                return
            self._installation.begin(made)
        self._go_on()

    def _go_on(self) -> None:
        """Carry the journal to its rest, and pass the turn on where that is a good one."""
        found = self._installation.journal
        # Looked at before the run: of a removal that is done no journal is left.
        is_removal = found is not None and found.phase is InstallPhase.BACK and not found.reason
        journal = self._installation.run()
        if journal is not None and journal.phase is InstallPhase.FAILED:
            self._report(journal.reason)
        elif is_removal and (problem := self._installation.wait_for(self._removed)):
            self._log.warning(FAILED, problem=problem)
            self._turn.fail(f"after the uninstallation: {problem}")
        else:
            self._turn.release()

    def _report(self, reason: str) -> None:
        """Keep the turn, with the reason: no other node is to follow. Where it is gone already, take it for that."""
        self._log.warning(FAILED, problem=reason)
        self._turn.take()
        self._turn.fail(reason)
        self._installation.report()
