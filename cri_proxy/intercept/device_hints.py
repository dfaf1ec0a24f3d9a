"""Find the hints of a container's devices and mounts in time: pods name the files, so any of them may hang."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from cri_proxy.cri.device_locality import (
    Numbers,
    declared_devices,
    device_nodes,
    device_numbers,
    localities,
    needs_number,
)
from cri_proxy.cri.device_sources import cdi_names, hint_paths, pci_addresses
from cri_proxy.cri.mounts import subjects_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.foreign_text import admit
from policies.base import DeviceLocality

LOOK_SECONDS: Final = 1.0
"""For all files of one container: as long as the kubelet is waited for when it is asked for devices."""
_REST_SECONDS: Final = 0.25
"""What is left of LOOK_SECONDS for sysfs when a path hangs: the hints of those that answered are not lost with it."""
CDI_FILES: Final = "CDI specifications"
POD_WORKERS: Final = 4
"""Workers for pods' files: so many volumes may hang before no pod's files are looked at."""


@dataclass(frozen=True, slots=True)
class MissingHints:
    """What stands in the place of hints that could not be read in time; ``problem`` is a sentence."""

    problem: str


Found = DeviceLocality | MissingHints


class DeviceHints:
    """Looks devices up below ``root``, the directory that holds ``sys/`` and ``dev/``."""

    def __init__(self, root: Path, files: FileCalls) -> None:
        """``files`` runs what may hang."""
        self._root = root
        self._files = files

    async def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these CDI names that the node's specification files declare. Raises FilesFailed."""
        return await self._files.run(CDI_FILES, declared_devices, self._root, tuple(names), within_seconds=LOOK_SECONDS)

    async def of(self, config: pb.ContainerConfig) -> tuple[Found, ...]:
        """Return the hints of this container within LOOK_SECONDS; those of files that do not answer are missing."""
        paths, addresses, names = hint_paths(config), pci_addresses(config), cdi_names(config)
        if not (paths or names):
            return ()
        look = _Look(self._root, self._files, asyncio.get_running_loop().time() + LOOK_SECONDS)
        nodes = await look.device_nodes(names) if names else ()
        wanted = tuple(dict.fromkeys((*paths, *nodes)))
        numbers = await look.numbers(("/", *(path for path in wanted if needs_number(path))))
        answered = tuple(path for path in wanted if path in numbers or not needs_number(path))
        found = await look.localities(answered, addresses, numbers)
        return (*found, *look.missing)


class _Look:
    """One look at the files of one container, until ``deadline`` on the loop's clock."""

    def __init__(self, root: Path, files: FileCalls, deadline: float) -> None:
        self._root = root
        self._files = files
        self._deadline = deadline
        self.missing: list[MissingHints] = []

    @property
    def _left_seconds(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    async def device_nodes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the device nodes behind these CDI names."""
        try:
            return await self._files.run(CDI_FILES, device_nodes, self._root, names, within_seconds=self._left_seconds)
        except FilesFailed as error:
            self._note(error, names)
            return ()

    async def numbers(self, paths: Sequence[str]) -> Numbers:
        """Return the devices behind those of these paths that answer."""
        try:
            subjects = await self._files.run(
                "mounts", subjects_of, self._root, tuple(paths), within_seconds=self._left_seconds
            )
        except (FilesFailed, OSError):
            subjects = tuple(paths)  # each for itself
        by_subject = groupby(sorted(zip(subjects, paths, strict=True)), key=lambda pair: pair[0])
        groups = [(subject, [path for _, path in pairs]) for subject, pairs in by_subject]
        found = await asyncio.gather(*(self._numbers_of(subject, group) for subject, group in groups))
        return {path: number for numbers in found for path, number in numbers.items()}

    async def _numbers_of(self, subject: str, paths: Sequence[str]) -> Numbers:
        try:
            within_seconds = self._left_seconds - _REST_SECONDS
            return await self._files.run(subject, device_numbers, self._root, paths, within_seconds=within_seconds)
        except FilesFailed as error:
            self._note(error, paths)
            return {}

    async def localities(
        self, paths: Sequence[str], addresses: Sequence[str], numbers: Numbers
    ) -> tuple[DeviceLocality, ...]:
        """Return the hints of these paths and PCI addresses."""
        if not (paths or addresses):
            return ()
        try:
            return await self._files.run(
                "sysfs", localities, self._root, paths, addresses, numbers, within_seconds=self._left_seconds
            )
        except FilesFailed as error:
            self._note(error, (*paths, *addresses))
            return ()

    def _note(self, error: FilesFailed, sources: Sequence[str]) -> None:
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        self.missing.append(MissingHints(admit(f"no hint of {sources[0]}{more}: {error}")))
