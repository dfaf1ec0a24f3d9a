"""Find the localities of a container's devices and mounts in time: pods name the files, so any of them may hang.

What names a device is told by ``cri.device_names``; only what something names is looked at.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

from cri_proxy.cri.device_names import nvidia_gpus as nvidia
from cri_proxy.cri.device_names.names import (
    NOTHING_TOLD,
    AllocatedDevices,
    DeviceName,
    ToldDevices,
    each_once,
    pci_address,
)
from cri_proxy.cri.device_sources import named_devices, via_cdi
from cri_proxy.cri.devices.gpu_variables import is_privileged
from cri_proxy.cri.devices.names import Proofs
from cri_proxy.cri.devices.pci_functions import FunctionsByAddress
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.device_files.cdi_hardware import Hardware, proved_devices
from cri_proxy.device_files.locality import Numbers, device_numbers, hardware, localities, needs_number
from cri_proxy.device_files.mounts import subjects_of
from cri_proxy.device_files.nvidia_driver import nvidia_gpus
from cri_proxy.device_files.pci_functions import functions_at
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.intercept.cdi_devices import LOOK_SECONDS, CdiDevices
from policies.base import DeviceLocality
from sysfs.text import some

T = TypeVar("T")

_REST_SECONDS: Final = 0.25
"""The rest of LOOK_SECONDS for sysfs when a path hangs: the localities of those that answered are not lost with it."""
NVIDIA_FILES: Final = "the NVIDIA driver"
PCI_FILES: Final = "PCI functions"
POD_WORKERS: Final = 4
"""Workers for pods' files: so many volumes may hang before no pod's files are looked at."""


Found = DeviceLocality | str
"""A locality, or a sentence about localities that could not be read in time."""


class LocalityLookup:
    """Looks devices up below ``root``, the directory that holds ``sys/``, ``dev/``, ``proc/`` and ``etc/``."""

    def __init__(self, root: Path, files: FileCalls) -> None:
        """``files`` runs what may hang."""
        self._root = root
        self._files = files
        self.cdi = CdiDevices(root, files)
        """The devices that the node's CDI specification files declare."""

    async def of(self, config: pb.ContainerConfig, told: ToldDevices = NOTHING_TOLD) -> tuple[Found, ...]:
        """Return the localities of this container within LOOK_SECONDS; those of files that do not answer are missing.

        ``told`` are its devices by the kubelet.
        """
        own = named_devices(config)
        # Nothing to look up: most containers cost no helper process.
        if not (own.names or own.problems or own.cdi or told.cdi or told.names):
            return tuple(group.place for group in told.places)
        cdi = {**dict(told.cdi), **{name: via_cdi(name) for name in own.cdi}}  # the request's own word goes first
        look = _Look(self._root, self._files, asyncio.get_running_loop().time() + LOOK_SECONDS)
        by_cdi = await look.named_by_cdi(self.cdi, tuple(cdi.items())) if cdi else ()
        names = each_once((*nvidia.not_replaced(own.names, by_cdi), *by_cdi, *told.names))
        # Beside each other, as the driver may hang and so may paths.
        gpus, numbers = await asyncio.gather(look.gpus(names), look.numbers(names))
        names = nvidia.believed(names, gpus.toolkit, is_privileged=is_privileged(config))
        found = await look.localities(names, gpus, numbers)
        missing = (*look.missing, *own.problems)
        return (*found, *(_identified(group, gpus) for group in told.places), *missing)

    async def proofs(self, names: Sequence[str]) -> Proofs:
        """Return the hardware behind these CDI names, or paths of device nodes, as files of the node prove it.

        These are specifications, the driver and sysfs. Within LOOK_SECONDS; of those that do not answer nothing is
        proved.
        """
        paths = {name: (DeviceName("path", name),) for name in names if name.startswith("/")}
        declared = [name for name in names if name not in paths]
        look = _Look(self._root, self._files, asyncio.get_running_loop().time() + LOOK_SECONDS)
        behind = {**paths, **(await look.behind(self.cdi, declared) if declared else {})}
        every = each_once(each for found in behind.values() for each in found)
        gpus, numbers = await asyncio.gather(look.gpus(every), look.numbers(every))
        hardware = await look.hardware(every, gpus, numbers)
        return {name: proved_devices(found, hardware, gpus) for name, found in behind.items()}

    async def functions(self, addresses: Sequence[str]) -> FunctionsByAddress:
        """Return the PCI functions at these addresses as they are now. Raises FilesFailed."""
        return await self._files.run(PCI_FILES, functions_at, self._root, addresses, within_seconds=LOOK_SECONDS)


class _Look:
    """One look at the files of one container, until ``deadline`` on the loop's clock."""

    def __init__(self, root: Path, files: FileCalls, deadline: float) -> None:
        self._root = root
        self._files = files
        self._deadline = deadline
        self.missing: list[str] = []

    def _left(self, rest_seconds: float = 0.0) -> float:
        """Return the time for a call before the last ``rest_seconds``."""
        return self._deadline - asyncio.get_running_loop().time() - rest_seconds

    async def named_by_cdi(self, cdi: CdiDevices, names: Sequence[tuple[str, str]]) -> tuple[DeviceName, ...]:
        """Return the names of the devices behind these CDI names, each with the CDI name that stands for it."""
        found = cdi.ask(CdiFiles.named, names, within_seconds=self._left())
        return await self._found([name for name, _ in names], (), found)

    async def behind(self, cdi: CdiDevices, names: Sequence[str]) -> Mapping[str, tuple[DeviceName, ...]]:
        """Return what names the hardware of each of these CDI devices."""
        none: Mapping[str, tuple[DeviceName, ...]] = {}
        return await self._found(names, none, cdi.ask(CdiFiles.behind, tuple(names), within_seconds=self._left()))

    async def hardware(self, names: Sequence[DeviceName], gpus: nvidia.NvidiaGpus, numbers: Numbers) -> Hardware:
        """Return the hardware behind each of these names; none of paths that have not answered."""
        answered = [n for n in names if n.kind != "path" or n.text in numbers or not needs_number(n.text)]
        if not answered:
            return {}
        found = self._files.run("sysfs", hardware, self._root, answered, numbers, gpus, within_seconds=self._left())
        every = await self._found([name.text for name in answered], (), found)
        return dict(zip(answered, every, strict=False))

    async def gpus(self, names: Sequence[DeviceName]) -> nvidia.NvidiaGpus:
        """Return the node's NVIDIA GPUs where any of them may be meant."""
        meant = [
            name.text for name in names if name.kind == "gpu" or (name.kind == "path" and nvidia.is_gpu_node(name.text))
        ]
        if not meant:
            return nvidia.NO_GPUS
        read = partial(nvidia_gpus, with_parts=any(map(nvidia.is_part_node, meant)))
        found = self._files.run(NVIDIA_FILES, read, self._root, within_seconds=self._left(_REST_SECONDS))
        return await self._found(meant, nvidia.NO_GPUS, found)

    async def numbers(self, names: Sequence[DeviceName]) -> Numbers:
        """Return the devices behind those paths that answer."""
        # With the root's own disk, near which nothing is placed for a volume: every container uses it
        # (``DeviceFinder``).
        paths = ["/", *(name.text for name in names if name.kind == "path" and needs_number(name.text))]
        if paths == ["/"]:
            return {}
        try:
            subjects = await self._files.run("mounts", subjects_of, self._root, paths, within_seconds=self._left())
        except (FilesFailed, OSError):
            subjects = tuple(paths)  # each for itself
        # A worker for each file system that may hang: paths of one NFS export hang together.
        by_subject = groupby(sorted(zip(subjects, paths, strict=True)), key=lambda pair: pair[0])
        groups = [(subject, [path for _, path in pairs]) for subject, pairs in by_subject]
        found = await asyncio.gather(*(self._numbers_of(subject, group) for subject, group in groups))
        return {path: number for numbers in found for path, number in numbers.items()}

    async def _numbers_of(self, subject: str, paths: Sequence[str]) -> Numbers:
        left = self._left(_REST_SECONDS)
        found = self._files.run(subject, device_numbers, self._root, paths, within_seconds=left)
        return await self._found(paths, {}, found)

    async def localities(
        self, names: Sequence[DeviceName], gpus: nvidia.NvidiaGpus, numbers: Numbers
    ) -> tuple[DeviceLocality, ...]:
        """Return the localities of these devices, without those of paths that have not answered."""
        answered = [n for n in names if n.kind != "path" or n.text in numbers or not needs_number(n.text)]
        if not answered:
            return ()
        asked = self._root, answered, numbers, gpus
        found = self._files.run("sysfs", localities, *asked, within_seconds=self._left())
        return await self._found([name.text for name in answered], (), found)

    async def _found(self, sources: Sequence[str], without: T, found: Awaitable[T]) -> T:
        """Return what was found of these sources; ``without`` if their files do not answer."""
        try:
            return await found
        except FilesFailed as error:
            self.missing.append(admit(f"no locality of {some(sources, 1)}: {error}"))
            return without


def _identified(group: AllocatedDevices, gpus: nvidia.NvidiaGpus) -> DeviceLocality:
    """Return the place of these devices with their PCI addresses, where the ids tell all of them."""
    addresses = [(address,) if (address := pci_address(id_)) else gpus.called_by_uuid(id_) for id_ in group.ids]
    if not all(addresses):
        return group.place
    return replace(group.place, devices=tuple(sorted({address for found in addresses for address in found})))
