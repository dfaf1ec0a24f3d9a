"""Ask the node's CDI specification files in time, and remember what was learned of them.

Helpers read and parse them, and end when they have had no work for a while. The next one is given what was parsed
before, and reads only files that have changed since.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from cri_proxy import events
from cri_proxy.cri.cdi.resolve import ResolvedDevices
from cri_proxy.cri.cdi.variables import ClaimNotRead, Variables, kind_of
from cri_proxy.cri.claim import VARIABLE_PREFIX
from cri_proxy.device_files.cdi import CLAIM_KINDS, MAX_CLAIM_KINDS, MAX_KIND_CHARACTERS, CdiFiles, ask_cdi
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.in_force.last_good_writer import LastGoodWriter, StateDirectory
from sysfs.text import some

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LOOK_SECONDS: Final = 1.0
"""For all files of one container: as long as the kubelet is waited for when it is asked for devices."""
CDI_FILES: Final = "CDI specifications"
CLAIM_KIND: Final = "dra.k8s.io/cpu"
"""The kind of kubernetes-sigs/dra-driver-cpu; others are known once a device of theirs has brought a claim."""


class CdiDevices:
    """The devices that the files below a root declare. All that ask for them raise FilesFailed."""

    def __init__(self, root: Path, files: FileCalls) -> None:
        """``root`` is the directory that holds ``etc/`` and ``var/``, ``files`` runs what may hang."""
        self._root = root
        self._files = files
        self._packed = b""
        self._claim_kinds = frozenset((CLAIM_KIND,))
        self._writer: LastGoodWriter[frozenset[str]] | None = None

    async def ask(self, question: Callable[[CdiFiles, *Ts], T], *args: *Ts, within_seconds: float = LOOK_SECONDS) -> T:
        """Return the files' answer to this question, a method of theirs."""
        asked = self._root, self._packed, question, *args
        found, self._packed = await self._files.run(CDI_FILES, ask_cdi, *asked, within_seconds=within_seconds)
        return found

    async def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these CDI names that the node's specification files declare."""
        return await self.ask(CdiFiles.declared, tuple(names))

    async def unreadable(self) -> tuple[str, ...]:
        """Return the node's specification files that are none."""
        return await self.ask(CdiFiles.unreadable)

    async def resolved(self, names: Sequence[str]) -> ResolvedDevices:
        """Return the edits of a container with these CDI devices, by their specifications."""
        return await self.ask(CdiFiles.resolve, tuple(names))

    async def claim_variables(self, names: Sequence[str]) -> Variables:
        """Return the variables of these CDI devices that name CPUs chosen for the container.

        Raises ClaimNotRead where files fail and a device is of a kind that brings such variables.
        """
        try:
            found, kinds = await self.ask(CdiFiles.variables, tuple(names), VARIABLE_PREFIX)
        except FilesFailed as error:
            # Refused, and tried again by the kubelet: on other CPUs it would go against its driver
            # (docs/adr/0015-claims.md).
            if carriers := [name for name in names if kind_of(name) in self._claim_kinds]:
                unknown = f"CPUs were chosen for it by {some(carriers, 3)}, and it is not known which"
                raise ClaimNotRead(admit(f"{unknown}: {error}; try again")) from error
            raise
        self._learn(kinds)
        return found

    def _learn(self, kinds: frozenset[str]) -> None:
        """Know that devices of these kinds bring claims, after a restart too."""
        known = self._claim_kinds.union(kind for kind in kinds if len(kind) <= MAX_KIND_CHARACTERS)
        # A bound: the kinds are named by files of others, and saved.
        if len(self._claim_kinds) < len(known) <= MAX_CLAIM_KINDS:
            self._claim_kinds = known
            if self._writer is not None:
                self._writer.keep(known)

    async def remember_in(self, state: StateDirectory) -> None:
        """Know the kinds with claims that an earlier process has learned, and save there those of this one."""
        self._writer = LastGoodWriter(state, CLAIM_KINDS, events.CLAIM_KINDS_NOT_KEPT)
        self._claim_kinds |= await self._writer.find(frozenset()) or frozenset()


def no_devices() -> CdiDevices:
    """Return those of a node without files."""
    return CdiDevices(Path(os.devnull), PLAIN_THREADS)
