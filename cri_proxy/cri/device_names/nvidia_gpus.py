"""Tell which NVIDIA GPU is meant: by index, UUID, PCI address, the minor of a device node, or a part of it (MIG). Pure.

Sources: the driver's ``/proc/driver/nvidia`` (kernel-open/nvidia/nv-procfs.c of open-gpu-kernel-modules) and
``/proc/driver/nvidia-caps/mig-minors``; how libnvidia-container selects devices (src/cli/common.c).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.device_names.names import DeviceName, pci_address
from cri_proxy.cri.device_names.variables import VISIBLE_DEVICES

DEVICE_LIST: Final = "/var/run/nvidia-container-devices"
"""Below it the toolkit reads the devices from mount points, where it is told to."""

_GPU_NODE: Final = re.compile(r"(?:/.*)?/dev/nvidia(\d{1,4})\Z")  # also below the root of a driver in a container
_PART_NODE: Final = re.compile(r"(?:/.*)?/dev/nvidia-caps/nvidia-cap(\d{1,6})\Z")
_PART_MINOR: Final = re.compile(r"gpu(\d{1,4})/gi\d+/(?:ci\d+/)?access (\d{1,6})")
_INDEX: Final = re.compile(r"(\d{1,4})(?::\d{1,4})?")
_UUID_OF_PARENT: Final = re.compile(r"mig-(gpu-[0-9a-f-]+)/\d+/\d+")
_SHARE: Final = "::"  # GPU-UUID::2 is a share of a GPU that the device plugin gives to several containers


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; ``uuid`` is in lower case, '' where the driver does not know it yet."""

    address: str
    minor: int = -1
    uuid: str = ""
    is_excluded: bool = False  # from use, by the driver's option: NVML does not count it


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The sources of the list of a container's GPUs for the container toolkit; the defaults are its own."""

    takes_variable: bool = True  # also from containers that are not privileged
    takes_mounts: bool = False


@dataclass(frozen=True, slots=True)
class NvidiaGpus:
    """The GPUs of the node.

    ``parted`` are the minors of GPUs that have MIG instances; ``parts`` has the minor of the GPU for each minor of
    a node below /dev/nvidia-caps.
    """

    gpus: tuple[Gpu, ...] = ()
    parted: frozenset[int] = frozenset()
    parts: tuple[tuple[int, int], ...] = ()
    toolkit: Toolkit = Toolkit()

    def behind_node(self, path: str) -> tuple[str, ...]:
        """Return the PCI address of the GPU that this device node is of, or is a part of; () where that is unknown."""
        node, part = _GPU_NODE.match(path), _PART_NODE.match(path)
        minor = int(node[1]) if node else dict(self.parts).get(int(part[1]), -1) if part else -1
        return tuple(gpu.address for gpu in self.gpus if gpu.minor == minor >= 0)

    def called(self, text: str) -> tuple[str, ...]:
        """Return the PCI address of the GPU that is called so; () for an unknown one.

        The UUID of a MIG instance does not tell its GPU: then these are all that have instances.
        """
        text = text.partition(_SHARE)[0].lower()
        address, index, parent = pci_address(text), _INDEX.fullmatch(text), _UUID_OF_PARENT.fullmatch(text)
        if address is not None:
            return tuple(gpu.address for gpu in self.gpus if gpu.address == address)
        if index is not None:
            counted = [gpu for gpu in self.gpus if not gpu.is_excluded]  # NVML counts them by their addresses
            return tuple(gpu.address for gpu in counted[int(index[1]) :][:1])
        if text.startswith("mig-") and parent is None:
            return tuple(gpu.address for gpu in self.gpus if gpu.minor in self.parted)
        return self.called_by_uuid(parent[1] if parent is not None else text)

    def called_by_uuid(self, text: str) -> tuple[str, ...]:
        """Return the PCI address of the GPU with this UUID, or the only one whose UUID begins so (older toolkits)."""
        uuid = text.partition(_SHARE)[0].lower()
        if not uuid.startswith("gpu-") or uuid == "gpu-":
            return ()
        found = [gpu for gpu in self.gpus if gpu.uuid.startswith(uuid)]
        return (found[0].address,) if len(found) == 1 else ()


NO_GPUS: Final = NvidiaGpus()


def is_gpu_node(path: str) -> bool:
    """Return whether this device node is one of the driver's, which has no parent in sysfs.

    >>> is_gpu_node("/dev/nvidia0"), is_gpu_node("/run/nvidia/driver/dev/nvidia-caps/nvidia-cap12")
    (True, True)
    >>> is_gpu_node("/dev/nvidiactl")  # of all GPUs
    False
    """
    return _GPU_NODE.match(path) is not None or _PART_NODE.match(path) is not None


def is_part_node(path: str) -> bool:
    """Return whether this device node is of a part of a GPU (MIG)."""
    return _PART_NODE.match(path) is not None


def read_information(text: str, directory: str) -> Gpu | None:
    r"""Return the GPU of this ``information`` file, in the directory of this name; None where it has no PCI address.

    >>> read_information("GPU UUID: \t GPU-aa\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 1\n", "")
    Gpu(address='0000:3b:00.0', minor=1, uuid='gpu-aa', is_excluded=False)
    """
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip().lower(): value.strip() for key, _, value in pairs}
    address = pci_address(fields.get("bus location", "")) or pci_address(directory)
    if address is None:
        return None
    minor, uuid = fields.get("device minor", ""), fields.get("gpu uuid", "").lower()
    return Gpu(
        address,
        int(minor) if re.fullmatch(r"[0-9]{1,4}", minor) else -1,
        uuid if uuid.startswith("gpu-") and "?" not in uuid else "",
        fields.get("gpu excluded", "").lower() == "yes",
    )


def in_order(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs as NVML counts them: by domain, bus, device and function."""
    return tuple(sorted(gpus, key=lambda gpu: [int(part, 16) for part in re.split("[:.]", gpu.address)]))


def read_part_minors(lines: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Return (minor of the node, minor of its GPU) from the lines of ``mig-minors``.

    >>> read_part_minors(["config 1", "gpu0/gi1/access 12", "gpu3/gi1/ci0/access 433"])
    ((12, 0), (433, 3))
    """
    found = (_PART_MINOR.fullmatch(line.strip()) for line in lines)
    return tuple((int(match[2]), int(match[1])) for match in found if match is not None)


def read_toolkit(text: str) -> Toolkit:
    """Return the settings of the toolkit's ``config.toml``; its defaults where it does not parse."""
    import tomllib  # 0.2 MB of the daemon and its helpers, for a file that only nodes with GPUs have

    try:
        settings = tomllib.loads(text)
    except (ValueError, RecursionError):
        return Toolkit()
    variable = settings.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True)
    mounts = settings.get("accept-nvidia-visible-devices-as-volume-mounts", False)
    return Toolkit(variable is not False, mounts is True)


def not_replaced(names: Sequence[DeviceName], by_cdi: Sequence[DeviceName]) -> tuple[DeviceName, ...]:
    """Return the container's own names without its GPUs where a CDI specification sets the variable: that one counts.

    The toolkit's own specifications set it to ``void``.
    """
    is_replaced = any(name.kind == "gpu" for name in by_cdi)
    return tuple(name for name in names if not (is_replaced and name.via == VISIBLE_DEVICES))


def believed(names: Sequence[DeviceName], toolkit: Toolkit, *, is_privileged: bool) -> tuple[DeviceName, ...]:
    """Return these without the GPUs that the toolkit does not give the container: mounts count before variables."""
    by_mounts = toolkit.takes_mounts and any(name.via == DEVICE_LIST for name in names)
    by_variable = not by_mounts and (toolkit.takes_variable or is_privileged)
    return tuple(
        name
        for name in names
        if (name.via != DEVICE_LIST or by_mounts) and (not name.via.startswith(VISIBLE_DEVICES) or by_variable)
    )
