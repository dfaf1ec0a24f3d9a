"""Tell which hardware is behind CDI names: by the files of their specifications, the driver and sysfs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cri_proxy.cri.device_names.names import DeviceName, each_once
from cri_proxy.cri.device_names.nvidia_gpus import NvidiaGpus, is_part_node
from cri_proxy.cri.devices.names import Proofs
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.device_files.locality import device_numbers, hardware, needs_number
from cri_proxy.device_files.nvidia_driver import nvidia_gpus
from policies.devices import ProvedDevice, proved

Hardware = Mapping[DeviceName, Sequence[Sequence[str]]]
"""The devices behind names: each as the names that sysfs has for it."""


def proofs_in(root: Path, files: CdiFiles, names: Sequence[str]) -> Proofs:
    """Return the hardware behind these CDI names. Blocks, for a driver that hangs without an end.

    ``root`` is the directory that holds ``sys/``, ``dev/`` and ``proc/``.
    """
    behind = files.behind(names)
    every = each_once(each for found in behind.values() for each in found)
    paths = [each.text for each in every if each.kind == "path"]
    numbers = device_numbers(root, [path for path in paths if needs_number(path)])
    gpus = nvidia_gpus(root, with_parts=any(map(is_part_node, paths)))
    found = dict(zip(every, hardware(root, every, numbers, gpus), strict=True))
    return {name: proved_devices(own, found, gpus) for name, own in behind.items()}


def proved_devices(names: Sequence[DeviceName], hardware: Hardware, gpus: NvidiaGpus) -> tuple[ProvedDevice, ...]:
    """Return the hardware behind what names a CDI device, each piece once.

    A GPU is told by its driver's identifier too. An identifier that the driver does not know stands for itself.
    """
    found: dict[Sequence[str], bool] = {}
    for name in names:
        told = hardware.get(name, ())
        if not told and name.kind == "gpu" and name.text.lower().startswith("gpu-"):
            told = ((name.text,),)
        is_part = name.kind == "path" and is_part_node(name.text)
        for each in told:
            found[each] = found.get(each, False) or is_part
    uuid_of = {gpu.address: gpu.uuid.upper() for gpu in gpus.gpus if gpu.uuid}
    return tuple(
        proved((*each, *(uuid_of[text] for text in each if text in uuid_of)), is_part=is_part)
        for each, is_part in found.items()
    )
