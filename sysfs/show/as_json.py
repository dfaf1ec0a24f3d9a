"""Show a machine to programs: plain data for JSON and YAML (pure).

Sets are CPU lists, sizes bytes, frequencies kHz, PCI codes hexadecimal text; everything is sorted by id.
"""

from sysfs.model import Cache, Core, CoreKind, Cpu, Device, Machine, NumaNode
from sysfs.show.outline import irregularities


def json_value(machine: Machine) -> dict[str, object]:
    """Return the machine as plain data. Later versions may add keys, and remove none."""
    kinds = {cpu.core: cpu.kind for cpu in machine.cpus}
    return {
        "online": str(machine.online),
        "offline": str(machine.offline),
        "isolated": str(machine.isolated),
        "packages": [{"id": p.id, "cpus": str(p.cpus)} for p in machine.packages],
        "dies": [{"package": d.package, "id": d.id, "cpus": str(d.cpus)} for d in machine.dies],
        "nodes": [_node(node) for node in machine.nodes],
        "caches": [_cache(cache) for cache in machine.caches],
        "cores": [_core(core, kinds[core.index]) for core in machine.cores],
        "cpus": [_cpu(cpu) for cpu in machine.cpus],
        "devices": [_device(device) for device in machine.devices],
        "irregular": list(irregularities(machine)),
        "notes": list(machine.notes),
    }


def _node(node: NumaNode) -> dict[str, object]:
    return {
        "id": node.id,
        "cpus": str(node.cpus),
        "memory_bytes": node.memory_bytes,
        "kind": node.kind.value,
        "normal": node.is_normal_memory,
        "near": str(node.near),
        "distances": {str(other): distance for other, distance in node.distances},
    }


def _cache(cache: Cache) -> dict[str, object]:
    return {"level": cache.level, "index": cache.index, "cpus": str(cache.cpus), "size_bytes": cache.size_bytes}


def _core(core: Core, kind: CoreKind) -> dict[str, object]:
    return {
        "index": core.index,
        "package": core.package,
        "die": core.die,
        "core_id": core.core_id,
        "cpus": str(core.cpus),
        "kind": kind.value,
    }


def _cpu(cpu: Cpu) -> dict[str, object]:
    return {
        "id": cpu.id,
        "package": cpu.package,
        "die": cpu.die,
        "node": cpu.node,
        "core": cpu.core,
        "base_frequency_khz": cpu.base_frequency_khz,
        "energy_preference": cpu.energy_preference,
    }


def _device(device: Device) -> dict[str, object]:
    return {
        "address": device.address,
        "class": f"{device.class_code:06x}",
        "vendor": f"{device.vendor:04x}",
        "device": f"{device.device:04x}",
        "node": device.node,
        "local_cpus": str(device.local_cpus),
        "bridges": list(device.bridges),
        "physical_function": device.physical_function,
    }
