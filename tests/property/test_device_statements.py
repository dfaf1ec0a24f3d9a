"""Sources that tell of one true machine never disagree: ``costs derive``, a scan, and files made of it.

The files leave out facts at random, and name devices by address, identifier or number. Then one fact is made wrong.
"""

import json
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.device_names.nvidia_gpus import Gpu
from cri_proxy.inventory.driver_names import with_identifiers
from cri_proxy.inventory.file import inventory_value, read_inventory_text
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.pci import inventory_of
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, PciePath
from policies.devices.costs import CostListing, Inventory, MachineCosts, Normalize, compile_costs
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Device, Machine
from tests.fakes.machines import random_machine

CLASSES = (0x030200, 0x020000, 0x120000)


@dataclass
class Truth:
    """A machine with PCI devices, and identifiers of those that are GPUs."""

    machine: Machine
    gpus: tuple[Gpu, ...]


def truth(rng: Random) -> Truth:
    machine = random_machine(rng, max_packages=4, max_cpus=32)
    devices: list[Device] = []
    for number in range(rng.randint(1, 8)):
        address, node = f"0000:{16 * (number + 1):02x}:00.0", rng.choice(machine.nodes)
        switch = f"0000:{16 * (number + 1) - 8:02x}:00.0"
        bridges = rng.choice([(), ("pci0000:00",), ("pci0000:00", switch), (f"pci0000:{number:02x}", "x", switch, "y")])
        local = rng.choice([node.cpus, machine.online, node.cpus | rng.choice(machine.nodes).cpus])
        at = rng.choice([node.id, node.id, -1])
        devices.append(Device(address, rng.choice(CLASSES), 0x10DE, 0, at, local, bridges))
        if rng.random() < 0.3:
            vf = Device(address[:-1] + "1", 0x020000, 0x10DE, 0, at, local, bridges, address)
            devices.append(vf)
    uuids = (f"gpu-{n:08x}-0000-0000-0000-{n:012x}" for n in range(len(devices)))
    gpus = (Gpu(d.address, n, uuid) for n, (d, uuid) in enumerate(zip(devices, uuids, strict=True)))
    return Truth(replace(machine, devices=tuple(devices)), tuple(gpus))


def listed(rng: Random, found: Truth) -> DeviceInventory:
    """What a file lists that was made of a scan, and of which facts were taken out."""
    devices = with_identifiers(inventory_of(found.machine), found.gpus).devices
    kept = [_less(rng, device) for device in devices if rng.random() < 0.7]
    return read_inventory_text(json.dumps(inventory_value(DeviceInventory(tuple(kept)))), "devices.yaml")


def _less(rng: Random, device: InventoryDevice) -> InventoryDevice:
    path, keeps = device.path, [rng.random() < 0.5 for _ in range(5)]
    bare = PciePath(path.root if keeps[0] else "", path.switches if keeps[1] else (), path.bus)
    return replace(
        device,
        numa=device.numa if keeps[2] else None,
        pcie=rng.choice([device.pcie, "own-name", None]),
        path=bare,
        uuid=device.uuid[: rng.choice([12, None])] if keeps[4] else "",
    )


def costs(rng: Random, found: Truth, inventory: DeviceInventory) -> Inventory:
    """What `cri-proxy costs derive` makes of the machine, for the files of several plugins."""
    derive = MachineCosts(found.machine)
    numbers = {device.path.bus: device for device in inventory.devices}
    listings = []
    for vendor in ("a.com/x", "b.com/y"):
        names = {}
        for device in found.machine.devices:
            own = numbers.get(device.address)
            choices = [f"{vendor}/{device.address}"]
            choices += [f"{vendor}/{own.uuid}"] if own is not None and len(own.uuid) > 12 else []
            choices += [f"cri-proxy.io/{own.kind}/{own.minor}"] if own is not None and vendor == "a.com/x" else []
            if rng.random() < 0.7:
                names[rng.choice(choices)] = device.address
        listings.append(derive.of_devices(names))
    nodes = {f"c.com/z/{d.address}": NodeSet.of([d.node]) for d in found.machine.devices if d.node >= 0}
    listings.append(derive.of_listed_nodes(nodes))
    lines = tuple(line for listing in listings for line in listing.lines)
    present = tuple(name for listing in listings for name in listing.present)
    return Inventory(compile_costs(CostListing(lines, present), rng.choice(list(Normalize))))


def joined(inventory: DeviceInventory, machine: Machine) -> JoinedDevices:
    cpus: dict[int, CpuSet] = {node.id: node.cpus for node in machine.nodes if node.cpus}
    return JoinedDevices(inventory, cpus)


@given(st.integers(0, 1 << 32))
def test_sources_of_one_true_machine_do_not_disagree(seed: int) -> None:
    rng = Random(seed)
    found = truth(rng)
    inventory = with_identifiers(with_scanned(listed(rng, found), inventory_of(found.machine)), found.gpus)
    for devices in (inventory, listed(rng, found), DeviceInventory(())):
        known = joined(replace(devices, costs=costs(rng, found, devices)), found.machine)
        assert known.disagreements == ()


@given(st.integers(0, 1 << 32))
def test_a_node_that_is_wrong_in_the_file_is_found(seed: int) -> None:
    rng = Random(seed)
    found = truth(rng)
    scanned = inventory_of(found.machine)
    device = rng.choice(scanned.devices)
    if device.numa is None:
        return
    wrong = replace(device, numa=device.numa + 1).stated_by("devices.yaml line 1")
    (text,) = joined(with_scanned(DeviceInventory((wrong,)), scanned), found.machine).disagreements
    assert text.startswith(
        f"{device.kind} {device.minor}: devices.yaml line 1 puts it at NUMA node {device.numa + 1}, "
    )
