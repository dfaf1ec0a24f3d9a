"""Random devices of cost files, random topology policies, and random requests for devices."""

import json
from dataclasses import replace
from random import Random

from cri_proxy.cri.annotations.device_request import amounts_text
from cri_proxy.cri.annotations.table import DEVICE_REQUEST
from cri_proxy.cri_client.pods import PodSpec
from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Labels
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import ALLOCATE_HINT, JOINT_ALLOCATE, DeviceInventory, InventoryDevice, VfGroup, VirtualFunction
from policies.devices.costs import CostLine, CostListing, Inventory, Missing, compile_costs
from sysfs.model import Machine

KINDS = ("example.com/gpu", "example.com/nic", "example.com/quiet")
KEY = DEVICE_REQUEST.key
_EXCLUSIVE = ("", "", "DeviceLevel", "PCIeLevel")


def random_listing(random: Random, machine: Machine) -> CostListing:
    """Up to six devices of each type; some say what a node's CPUs or other devices cost them, some nothing."""
    names = [f"{kind}/{i}" for kind in KINDS for i in range(random.randint(1, 6))]
    lines = []
    for name in names:
        if name.startswith(KINDS[2]) or random.random() < 0.15:
            continue
        for node in machine.nodes:
            if random.random() < 0.8:
                targets = tuple(f"cpu/cpu{cpu}" for cpu in node.cpus)
                cost = random.choice((0, 5, 20, 60))
                lines.append(
                    CostLine((name,), cost, targets) if random.random() < 0.8 else CostLine(targets, cost, (name,))
                )
        others = [other for other in names if other != name and random.random() < 0.3]
        lines += [CostLine((name,), random.randint(0, 40), (other,)) for other in others]
    return CostListing(tuple(lines), tuple(names))


def random_inventory(random: Random, machine: Machine) -> Inventory:
    """Return what random cost files list; unknown costs count in any of the ways that there are."""
    return Inventory(compile_costs(random_listing(random, machine)), random.choice(tuple(Missing)))


def random_topology(random: Random) -> TopologyOptions:
    """Return any policy with any scope, by the fewest nodes or by the cheapest set."""
    prefers_chosen_sets = random.random() < 0.3
    policy, scope = random.choice(tuple(TopologyPolicy)), random.choice(tuple(TopologyScope))
    return TopologyOptions(policy, scope, prefers_chosen_sets=prefers_chosen_sets)


def random_amounts(random: Random, most: int = 3) -> tuple[DeviceAmount, ...]:
    """Return some devices of one or two types."""
    kinds = sorted(random.sample(KINDS, random.randint(1, 2)))
    return tuple(DeviceAmount(kind, random.randint(1, most)) for kind in kinds)


def asking(random: Random, spec: PodSpec) -> PodSpec:
    """Return the pod asking for devices, of whatever it asked before: for each of its containers, or for the first."""
    others = tuple((key, value) for key, value in spec.annotations if KEY not in key)
    return replace(spec, annotations=tuple(sorted((*others, *_request(random)))))


def _request(random: Random) -> Labels:
    amounts = random_amounts(random, most=random.choice((1, 1, 2)))
    counts = ", ".join(f'"{amount.kind}": {amount.count}' for amount in amounts)
    text = amounts_text(amounts)
    return random.choice(
        (
            ((f"cri-proxy.io/{KEY}", text),),
            ((f"{KEY}.cri-proxy.io/pod", f"{{{counts}}}"),),
            ((f"{KEY}.cri-proxy.io/container.c0", text),),
            ((f"cri-proxy.io/{KEY}", "none"), (f"{KEY}.cri-proxy.io/container.c0", text)),
        )
    )


def random_devices(rng: Random, machine: Machine) -> DeviceInventory:
    """PCIe groups of up to two GPUs and NICs, some of an unknown node or of one that the machine lacks."""
    devices: list[InventoryDevice] = []
    for group in range(rng.randint(2, 6)):
        node = rng.choice([*(4 * [node.id for node in machine.nodes]), None, 63])
        for kind in rng.choice((("gpu",), ("rdma",), ("gpu", "rdma"), ("gpu", "gpu", "rdma"), ("gpu", "rdma", "rdma"))):
            minor = sum(device.kind == kind for device in devices)
            vfs = tuple(VirtualFunction(i, f"0000:{minor:02x}:00.{i + 1}") for i in range(rng.choice((0, 2))))
            groups = (VfGroup(vfs),) if kind == "rdma" and vfs else ()
            devices.append(InventoryDevice(kind, minor, node, f"p{group}", vf_groups=groups))
    return DeviceInventory(tuple(devices))


def random_ask(rng: Random) -> DeviceAsk:
    """GPUs as a whole or in shares, NICs in shares or by VF, jointly or not, exclusive or not."""
    requests: dict[str, int] = {}
    texts: dict[str, str] = {}
    if rng.random() < 0.7:
        whole, share = {"nvidia.com/gpu": rng.choice((1, 2))}, {"koordinator.sh/gpu": rng.choice((30, 50, 70))}
        requests |= rng.choice((whole, share))
    if not requests or rng.random() < 0.5:
        requests["koordinator.sh/rdma"] = rng.choice((1, 40, 60, 100))
    hints = {}
    for kind in ("gpu", "rdma"):
        hint: dict[str, object] = {"exclusivePolicy": rng.choice(_EXCLUSIVE)}
        if kind == "rdma" and rng.random() < 0.4:
            hint["vfSelector"] = {}
        hints[kind] = hint
    texts[ALLOCATE_HINT] = json.dumps(hints)
    if rng.random() < 0.4:
        joint: dict[str, object] = {"deviceTypes": ["gpu", "rdma"]}
        texts[JOINT_ALLOCATE] = json.dumps(joint | ({"requiredScope": "SamePCIe"} if rng.random() < 0.3 else {}))
    return DeviceAsk((), tuple(sorted(requests.items())), tuple(sorted(texts.items())))
