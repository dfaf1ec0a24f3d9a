"""Convert a machine to plain data for JSON and YAML, as ``topology -o json`` and the HTTP server print it. Pure.

Sets are CPU lists, sizes bytes, frequencies kHz, PCI codes hexadecimal text; everything is sorted by id.
"""

from sysfs.cpuset import IdSet
from sysfs.model import Device, Machine, NumaNode
from sysfs.quantity import bytes_text
from sysfs.show.outline import irregularities
from sysfs.show.pci_class import class_words


def json_value(machine: Machine) -> dict[str, object]:
    """Return the machine as plain data. Later versions may add keys but never remove them."""
    kinds = {cpu.core: cpu.kind.value for cpu in machine.cpus}
    cpu_keys = ("id", "package", "die", "node", "core", "base_frequency_khz", "energy_preference", "capacity")
    return {
        **_fields(machine, "online", "offline", "isolated"),
        "packages": [_fields(package, "id", "cpus") for package in machine.packages],
        "dies": [_fields(die, "package", "id", "cpus") for die in machine.dies],
        "nodes": [_node(node) for node in machine.nodes],
        "caches": [_fields(cache, "level", "index", "cpus", "size_bytes") for cache in machine.caches],
        "cores": [
            {**_fields(core, "index", "package", "die", "core_id", "cpus"), "kind": kinds[core.index]}
            for core in machine.cores
        ],
        "cpus": [_fields(cpu, *cpu_keys) for cpu in machine.cpus],
        "devices": [_device(device) for device in machine.devices],
        "irregular": list(irregularities(machine)),
        "notes": list(machine.notes),
    }


def _fields(thing: object, *names: str) -> dict[str, object]:
    """Return these attributes by name; sets as CPU lists."""
    values = {name: getattr(thing, name) for name in names}
    return {name: str(value) if isinstance(value, IdSet) else value for name, value in values.items()}


def _node(node: NumaNode) -> dict[str, object]:
    return {
        **_fields(node, "id", "cpus", "memory_bytes"),
        "kind": node.kind.value,
        "normal": node.is_normal_memory,
        "huge_pages": {bytes_text(pages.page_bytes): pages.count for pages in node.huge_pages},
        "near": str(node.near),
        "distances": {str(other): distance for other, distance in node.distances},
    }


def _device(device: Device) -> dict[str, object]:
    return {
        "address": device.address,
        "class": f"{device.class_code:06x}",
        "class_name": class_words(device.class_code),
        "vendor": f"{device.vendor:04x}",
        "device": f"{device.device:04x}",
        **_fields(device, "node", "local_cpus"),
        "bridges": list(device.bridges),
        "physical_function": device.physical_function,
        "rdma": device.has_rdma,
        **({"partitions": list(device.partitions)} if device.partitions else {}),
    }
