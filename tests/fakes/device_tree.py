"""A node's devices as made-up files: PCI in sysfs, NVIDIA's driver in /proc, CDI files; and how others name them.

On each NUMA node with CPUs are two GPUs and two virtual functions of a NIC. Device nodes need root to be made, so the
numbers behind their paths are told by ``MadeUpFiles``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple, cast

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.device_files.locality import DeviceNumber, device_numbers
from cri_proxy.kubelet.proto import podresources_v1_pb2 as kubelet
from sysfs.model import Machine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PER_NODE: Final = 2  # of GPUs, and of virtual functions
DRM, UVERBS = 226, 231  # Documentation/admin-guide/devices.txt, and what InfiniBand has


@dataclass(frozen=True, slots=True)
class MadeUpDevice:
    """A PCI function. ``index`` counts those of its kind by address; ``minor`` is what its driver numbers it with."""

    kind: str  # gpu or nic
    index: int
    minor: int
    node: int
    address: str
    uuid: str


Naming = Callable[[MadeUpDevice, pb.ContainerConfig], kubelet.ClaimResource | None]
"""Names a device in a container's configuration, or gives what the kubelet says of its claim."""


def made_up_devices(machine: Machine) -> tuple[MadeUpDevice, ...]:
    """The devices of this machine; a later node has the lower buses, and minors count the other way round."""
    nodes = [node.id for node in machine.nodes if node.cpus]
    found = []
    for kind, bus in (("gpu", 0x10), ("nic", 0x80)):
        places = [node for node in reversed(nodes) for _ in range(PER_NODE)]
        for index, node in enumerate(places):
            uuid = f"{index:02x}b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
            address = f"0000:{bus + index:02x}:00.{0 if kind == 'gpu' else 1}"
            found.append(MadeUpDevice(kind, index, len(places) - 1 - index, node, address, uuid))
    return tuple(found)


def write_devices(root: Path, machine: Machine, devices: Sequence[MadeUpDevice]) -> dict[str, DeviceNumber]:
    """Write the files below ``root``; return the numbers behind the paths of device nodes."""
    cpus = {node.id: str(node.cpus) for node in machine.nodes}
    numbers: dict[str, DeviceNumber] = {}
    for device in devices:
        home = root / f"sys/devices/pci0000:{device.address[5:7]}" / device.address
        _write(home / "numa_node", f"{device.node}\n")
        _write(home / "local_cpulist", f"{cpus[device.node]}\n")
        for name, below in _links(device).items():
            (home / below).mkdir(parents=True, exist_ok=True)
            link = root / "sys" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(home / below)
        numbers |= _numbers(device)
        if device.kind == "gpu":
            _write_driver(root / "proc/driver", device)
    parts = "".join(f"gpu{d.minor}/gi1/access {_part(d)}\n" for d in devices if d.kind == "gpu")
    _write(root / "proc/driver/nvidia-caps/mig-minors", f"config 1\nmonitor 2\n{parts}")
    for kind in ("gpu", "nic"):
        specification = {"cdiVersion": "1.1.0", "kind": f"example.com/{kind}", "devices": _cdi_devices(kind, devices)}
        _write(root / f"var/run/cdi/{kind}.json", json.dumps(specification))
    return numbers


def _links(device: MadeUpDevice) -> dict[str, str]:
    """Below sys/: where the kernel links to what is below the device's directory."""
    links = {f"bus/pci/devices/{device.address}": ""}
    if device.kind == "gpu":
        links[f"bus/mdev/devices/{device.uuid}"] = device.uuid
        return links | {f"dev/char/{DRM}:{128 + device.index}": f"drm/renderD{128 + device.index}"}
    return links | {
        f"dev/char/{UVERBS}:{device.index}": f"infiniband_verbs/uverbs{device.index}",
        f"class/net/eth{device.index}/device": "",
        f"class/vfio-dev/vfio{device.index}": f"vfio-dev/vfio{device.index}",
        f"bus/auxiliary/devices/mlx5_core.sf.{device.index}": f"mlx5_core.sf.{device.index}",
        f"kernel/iommu_groups/{device.index}/devices/{device.address}": "",
    }


def _numbers(device: MadeUpDevice) -> dict[str, DeviceNumber]:
    if device.kind == "gpu":
        return {f"/dev/dri/renderD{128 + device.index}": DeviceNumber("char", DRM, 128 + device.index)}
    return {f"/dev/infiniband/uverbs{device.index}": DeviceNumber("char", UVERBS, device.index)}


def _part(gpu: MadeUpDevice) -> int:
    return 30 + 9 * gpu.minor


def _write_driver(directory: Path, gpu: MadeUpDevice) -> None:
    fields = {"GPU UUID": f"GPU-{gpu.uuid}", "Bus Location": gpu.address, "Device Minor": gpu.minor}
    text = "".join(f"{key}: \t {value}\n" for key, value in fields.items())
    _write(
        directory / "nvidia/gpus" / gpu.address / "information", f"Model: \t\t NVIDIA A100\n{text}GPU Excluded:\t No\n"
    )


def _cdi_devices(kind: str, devices: Sequence[MadeUpDevice]) -> list[dict[str, object]]:
    """A CDI device for each way to say in ``containerEdits``, or beside it, which device it is."""
    found: list[dict[str, object]] = []
    for device in devices if kind == "gpu" else ():
        if device.kind == "gpu":
            edits: tuple[tuple[str, dict[str, object]], ...] = (
                ("node", {"deviceNodes": [{"path": f"/dev/nvidia{device.minor}"}, {"path": "/dev/nvidiactl"}]}),
                ("variable", {"env": [f"NVIDIA_VISIBLE_DEVICES=GPU-{device.uuid}"]}),
            )
            found += ({"name": f"{way}{device.index}", "containerEdits": edit} for way, edit in edits)
    for device in devices if kind == "nic" else ():
        if device.kind == "nic":
            mount = {"hostPath": f"/sys/bus/pci/devices/{device.address}", "containerPath": "/nic"}
            edits = (
                ("mount", {"mounts": [mount]}),
                ("variable", {"env": [f"NIC={device.address}"]}),
                ("interface", {"netDevices": [{"hostInterfaceName": f"eth{device.index}", "name": "net1"}]}),
            )
            found += ({"name": f"{way}{device.index}", "containerEdits": edit} for way, edit in edits)
            note = {"annotations": {"example.com/bus": device.address}, "containerEdits": {"env": ["NIC=yes"]}}
            found.append({"name": f"note{device.index}", **note})
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class MadeUpFiles:
    """Implements ``file_workers.FileCalls`` at once, in this thread, with the numbers of made-up device nodes."""

    def __init__(self, numbers: Mapping[str, DeviceNumber]) -> None:
        self._numbers = numbers

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        if cast(object, function) is device_numbers:
            _, paths = cast(tuple[Path, Sequence[str]], args)
            return cast(T, {path: self._numbers.get(path) for path in paths})
        return function(*args)


def _variable(key: str, value_of: Callable[[MadeUpDevice], str]) -> Naming:
    def name(device: MadeUpDevice, config: pb.ContainerConfig) -> None:
        config.envs.add(key=key.format(device.index), value=value_of(device).encode())

    return name


def _node(path_of: Callable[[MadeUpDevice], str]) -> Naming:
    def name(device: MadeUpDevice, config: pb.ContainerConfig) -> None:
        config.devices.add(host_path=path_of(device), container_path="/dev/x")

    return name


def _cdi(way: str) -> Naming:
    def name(device: MadeUpDevice, config: pb.ContainerConfig) -> None:
        config.CDI_devices.add(name=f"example.com/{device.kind}={way}{device.index}")

    return name


def _claim_by_cdi(device: MadeUpDevice, config: pb.ContainerConfig) -> kubelet.ClaimResource:
    way = "node" if device.kind == "gpu" else "mount"
    names = [kubelet.CDIDevice(name=f"example.com/{device.kind}={way}{device.index}")]
    return kubelet.ClaimResource(cdi_devices=names, driver_name="x.example.com", pool_name="node", device_name="d-0")


def _claim_by_label(device: MadeUpDevice, config: pb.ContainerConfig) -> kubelet.ClaimResource:
    label = f"{device.kind}-{device.address.replace(':', '-').replace('.', '-')}"
    return kubelet.ClaimResource(driver_name="x.example.com", pool_name="node", device_name=label)


VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
NAMINGS: Final[Mapping[str, Mapping[str, Naming]]] = {
    "gpu": {
        "index": _variable(VISIBLE, lambda d: str(d.index)),
        "part by index": _variable(VISIBLE, lambda d: f"{d.index}:1"),
        "UUID": _variable(VISIBLE, lambda d: f"GPU-{d.uuid}"),
        "beginning of a UUID": _variable(VISIBLE, lambda d: f"GPU-{d.uuid[:8]}"),
        "part by UUID": _variable(VISIBLE, lambda d: f"MIG-GPU-{d.uuid}/1/0"),
        "PCI address": _variable(VISIBLE, lambda d: f"0000{d.address}"),
        "PCI_RESOURCE": _variable("PCI_RESOURCE_NVIDIA_COM_T{}", lambda d: d.address),
        "mediated device": _variable("MDEV_PCI_RESOURCE_NVIDIA_COM_GRID{}", lambda d: d.uuid),
        "node of the driver": _node(lambda d: f"/dev/nvidia{d.minor}"),
        "node of a part": _node(lambda d: f"/dev/nvidia-caps/nvidia-cap{_part(d)}"),
        "DRM node": _node(lambda d: f"/dev/dri/renderD{128 + d.index}"),
        "CDI node": _cdi("node"),
        "CDI variable": _cdi("variable"),
        "claim with a CDI device": _claim_by_cdi,
        "claim with an address": _claim_by_label,
    },
    "nic": {
        "PCIDEVICE": _variable("PCIDEVICE_EXAMPLE_COM_NIC{}", lambda d: d.address),
        "PCIDEVICE_INFO": _variable(
            "PCIDEVICE_EXAMPLE_COM_NIC{}_INFO", lambda d: json.dumps({d.address: {"generic": {}}})
        ),
        "auxiliary device": _variable("PCIDEVICE_EXAMPLE_COM_SF{}", lambda d: f"mlx5_core.sf.{d.index}"),
        "VFIO group": _node(lambda d: f"/dev/vfio/{d.index}"),
        "VFIO device": _node(lambda d: f"/dev/vfio/devices/vfio{d.index}"),
        "InfiniBand node": _node(lambda d: f"/dev/infiniband/uverbs{d.index}"),
        "CDI mount": _cdi("mount"),
        "CDI variable": _cdi("variable"),
        "CDI annotation": _cdi("note"),
        "CDI interface": _cdi("interface"),
        "claim with a CDI device": _claim_by_cdi,
        "claim with an address": _claim_by_label,
    },
}
"""Each way to name a device of a kind."""
VISIBLE_ONCE: Final = frozenset(
    {"index", "part by index", "UUID", "beginning of a UUID", "part by UUID", "PCI address"}
)
"""Those of GPUs that set the same variable; "CDI variable" replaces it."""
