"""A machine written as a sysfs tree, on disk or in memory, for what reads topology.

Only the files that discovery reads are there, with the kernel's formats. ``files_of`` gives them as text by path below
the root, to change one before ``write_tree`` or ``memory_tree``.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from sysfs.archives.tar import MemoryTree
from sysfs.model import CoreKind, Cpu, Device, Machine, NumaNode

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def files_of(machine: Machine) -> dict[str, str]:
    """Path to content. The kinds of memory are not written: they must follow from sizes."""
    present = machine.online | machine.offline
    files = {
        f"{CPU}/online": str(machine.online),
        f"{CPU}/offline": str(machine.offline),
        f"{CPU}/present": str(present),
        f"{CPU}/possible": str(present),
        f"{CPU}/isolated": str(machine.isolated),
        f"{NODE}/has_cpu": _ids(n for n in machine.nodes if n.cpus),
        f"{NODE}/has_memory": _ids(n for n in machine.nodes if n.memory_bytes),
        f"{NODE}/has_normal_memory": _ids(n for n in machine.nodes if n.is_normal_memory),
    }
    efficient = [c.id for c in machine.cpus if c.kind is CoreKind.EFFICIENCY]
    if efficient:
        files["sys/devices/cpu_atom/cpus"] = ",".join(map(str, efficient))
    files |= {f"{CPU}/cpu{cpu}/online": "0" for cpu in machine.offline}
    caches = {cpu: [c for c in machine.caches if cpu in c.cpus] for cpu in machine.online}
    for cpu in machine.cpus:
        files |= _cpu(machine, cpu)
        for cache in caches[cpu.id]:
            base = f"{CPU}/cpu{cpu.id}/cache/index{cache.level}"
            files[f"{base}/level"] = str(cache.level)
            files[f"{base}/type"] = "Unified"
            files[f"{base}/shared_cpu_list"] = str(cache.cpus)
            files |= {f"{base}/size": f"{cache.size_bytes // 1024}K"} if cache.size_bytes else {}
    for node in machine.nodes:
        files |= _node(node)
    for device in machine.devices:
        files |= _device(device)
    for index, device in enumerate(device for device in machine.devices if device.partitions):
        files |= _partitions(index, device)
    return {path: f"{content}\n" for path, content in files.items()}


def _ids(nodes: Iterable[NumaNode]) -> str:
    return ",".join(str(node.id) for node in nodes)


def _cpu(machine: Machine, cpu: Cpu) -> dict[str, str]:
    core = machine.cores[cpu.core]
    base = f"{CPU}/cpu{cpu.id}"
    files = {
        f"{base}/topology/physical_package_id": str(cpu.package),
        f"{base}/topology/die_id": str(cpu.die),
        f"{base}/topology/core_id": str(core.core_id),
        f"{base}/topology/core_cpus_list": str(core.cpus),
    }
    if cpu.id:
        files[f"{base}/online"] = "1"
    if cpu.capacity:
        files[f"{base}/cpu_capacity"] = str(cpu.capacity)
    if cpu.base_frequency_khz:
        files[f"{CPU}/cpufreq/policy{cpu.id}/base_frequency"] = str(cpu.base_frequency_khz)
        files[f"{base}/cpufreq/base_frequency"] = str(cpu.base_frequency_khz)
    if cpu.energy_preference:
        files[f"{CPU}/cpufreq/policy{cpu.id}/energy_performance_preference"] = cpu.energy_preference
        files[f"{base}/cpufreq/energy_performance_preference"] = cpu.energy_preference
    return files


def _node(node: NumaNode) -> dict[str, str]:
    base = f"{NODE}/node{node.id}"
    return {
        f"{base}/cpulist": str(node.cpus),
        f"{base}/distance": " ".join(str(distance) for _, distance in node.distances),
        f"{base}/meminfo": f"Node {node.id} MemTotal:       {node.memory_bytes // 1024} kB\n"
        f"Node {node.id} MemFree:        {node.memory_bytes // 2048} kB",
        **{f"{base}/hugepages/hugepages-{p.page_bytes >> 10}kB/nr_hugepages": str(p.count) for p in node.huge_pages},
    }


def device_path(device: Device) -> str:
    return "/".join(["sys/devices", *device.bridges, device.address])


def _device(device: Device) -> dict[str, str]:
    base = device_path(device)
    return {
        f"{base}/class": f"0x{device.class_code:06x}",
        f"{base}/vendor": f"0x{device.vendor:04x}",
        f"{base}/device": f"0x{device.device:04x}",
        f"{base}/numa_node": str(device.node),
        f"{base}/local_cpulist": str(device.local_cpus),
        **({f"{base}/infiniband/verbs0/node_type": "1: CA"} if device.has_rdma else {}),
    }


def _partitions(index: int, gpu: Device) -> dict[str, str]:
    """The platform devices of a GPU's partitions, and the nodes that KFD has of them and of the GPU itself."""
    domain, bus, slot = gpu.address.split(":")
    location = int(bus, 16) << 8 | int(slot[:2], 16) << 3
    files = {"sys/devices/virtual/kfd/kfd/topology/generation_id": "2"}
    for part, name in enumerate(("", *gpu.partitions)):
        minor = 128 + 8 * index + part
        fields = {"cpu_cores_count": 0, "domain": int(domain, 16), "location_id": location | part << 28}
        text = "\n".join(f"{key} {value}" for key, value in (fields | {"drm_render_minor": minor}).items())
        files[f"sys/devices/virtual/kfd/kfd/topology/nodes/{8 * index + part}/properties"] = text
        if name:
            files[f"sys/devices/platform/{name}/drm/renderD{minor}/dev"] = f"226:{minor}"
    return files


def links_of(machine: Machine) -> dict[str, str]:
    """The links of the PCI bus, and of virtual functions to their physical one."""
    links = {
        f"sys/bus/pci/devices/{d.address}": f"../../../{device_path(d).removeprefix('sys/')}" for d in machine.devices
    }
    virtual = [d for d in machine.devices if d.physical_function]
    return links | {f"{device_path(d)}/physfn": f"../{d.physical_function}" for d in virtual}


def memory_tree(files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> MemoryTree:
    return MemoryTree({p: c.encode() if isinstance(c, str) else c for p, c in files.items()}, links or {})


def tree_of(machine: Machine) -> MemoryTree:
    return memory_tree(files_of(machine), links_of(machine))


def write_tree(root: Path, machine: Machine, changes: Mapping[str, str | None] | None = None) -> Path:
    """Write the machine below ``root`` and give it back; ``changes`` replaces contents, None removes the file."""
    for path, content in {**files_of(machine), **(changes or {})}.items():
        if content is None:
            continue
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    for path, target in links_of(machine).items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return root
