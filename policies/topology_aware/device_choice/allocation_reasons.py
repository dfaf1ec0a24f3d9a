"""Sentences about devices of the inventory: which a container has and why, who holds what it cannot have."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from policies.alignment import Alignment
from policies.base import Reason
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices.allocate import DeviceAllocator, TogetherChoice
from policies.devices.joint import Closeness
from policies.devices.model import WHOLE
from policies.topology_aware.device_choice.allocation_conflict import DeviceClaim
from policies.topology_aware.device_choice.inventory import holder_name
from policies.topology_aware.device_choice.reasons import nodes_of
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import NodeSet
from sysfs.text import numbered, some

_SHOWN: Final = 8  # devices, places or holders in a sentence
_CLOSE: Final = {
    Closeness.SAME_PCIE: "on the same PCIe",
    Closeness.SAME_NUMA_NODE: "on the same NUMA node, as not every PCIe has one of each",
    Closeness.SAME_MACHINE: "anywhere on the machine, as not every NUMA node has one of each",
}


def grants_text(devices: Sequence[DeviceGrant]) -> str:
    """Return devices in words, with what a container has of each that is not the whole.

    >>> grants_text([DeviceGrant("gpu", 0, 100), DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")])
    'gpu 0, 1 of 100 of rdma 1 VF 0000:51:00.1'
    """
    names = [str(grant) if grant.amount >= WHOLE else f"{grant.amount} of {WHOLE} of {grant}" for grant in devices]
    return some(names, _SHOWN)


def allocated(
    allocator: DeviceAllocator, devices: Sequence[DeviceGrant], choices: Sequence[TogetherChoice], passed_over: int
) -> Reason:
    """The devices that were chosen, where they are, and what decided.

    ``passed_over`` are nodes that were as good but for their CPUs and memory.
    """
    parts = [f"{grants_text(devices)}: {_places_text(allocator, devices)}"]
    for choice in choices:
        if len(choice.kinds) > 1:
            parts.append(f"{' and '.join(choice.kinds)} {_CLOSE[choice.closeness]}")
        if choice.partition:
            parts.append(f"partition {NodeSet.of(choice.partition)}")
        if choice.link_score is not None:
            parts.append(f"links of {choice.link_score} points")
    policies = {grant.kind: grant.exclusive for grant in devices if grant.exclusive}
    parts += [f"{kind} {_alone(policy)} ({policy})" for kind, policy in policies.items()]
    if passed_over:
        nodes = NodeSet(passed_over)
        has = "has" if len(nodes) == 1 else "have"
        parts.append(f"{numbered('NUMA node', nodes)} {has} too little room for its CPUs or memory")
    return Reason(ReasonCode.ALLOCATED, "; ".join(parts))


def _alone(policy: ExclusivePolicy) -> str:
    return "alone" if policy is ExclusivePolicy.DEVICE_LEVEL else "alone on its PCIe"


def _places_text(allocator: DeviceAllocator, devices: Sequence[DeviceGrant]) -> str:
    groups = [allocator.groups[number] for number in sorted({allocator.group_of[grant.key] for grant in devices})]
    nodes = dict.fromkeys("unknown" if group.numa is None else str(group.numa) for group in groups)
    where = f"NUMA node{'' if len(nodes) == 1 else 's'} {some(list(nodes), _SHOWN)}"
    names = [group.pcie for group in groups if group.pcie is not None]
    return f"{where}, PCIe {some(names, _SHOWN)}" if names else where


def given(devices: Sequence[DeviceGrant]) -> Reason:
    """Devices that others chose for the container."""
    return Reason(ReasonCode.ALLOCATED, f"{grants_text(devices)}: chosen by others, and counted")


def kept(devices: Sequence[DeviceGrant], *, runs: bool) -> Reason:
    """The container has the devices that it had."""
    stay, have = ("stays", "is") if len(devices) == 1 else ("stay", "are")
    text = f"its {grants_text(devices)} {stay} with it while it runs"
    return Reason(ReasonCode.DEVICES_KEPT, text if runs else f"its earlier {grants_text(devices)} {have} free and kept")


def lost(devices: Sequence[DeviceGrant]) -> Reason:
    """The container cannot have the devices of its earlier attempt again."""
    return Reason(
        ReasonCode.DEVICES_LOST, f"its earlier {grants_text(devices)} could not be had again: others are chosen"
    )


def beyond(alignment: Alignment, problem: str) -> Reason:
    """The devices are on other nodes than the container; ``problem`` is why they are not on its nodes."""
    return Reason(ReasonCode.DEVICES_BEYOND, f"its devices are not on {nodes_of(alignment)}: {problem}")


def read(warnings: Sequence[str]) -> Reason:
    """What was read otherwise than it is written."""
    return Reason(ReasonCode.ALLOCATION_READ, "; ".join(warnings))


def refused(problem: str, kinds: Iterable[str] = (), claims: Collection[DeviceClaim] = ()) -> Reason:
    """The devices cannot be had; ``problem`` says what is missing, and where. Then who holds devices of these types."""
    wanted = frozenset(kinds)
    held = _holders_text(claim for claim in claims if claim.device.kind in wanted)
    return Reason(ReasonCode.ALLOCATION_REFUSED, f"{problem}; held: {held}" if held else problem)


def outside(problem: str, alignment: Alignment) -> Reason:
    """The devices cannot be had on the NUMA nodes that the container is kept within."""
    text = f"{problem}; its topology policy keeps it on {nodes_of(alignment)}"
    return Reason(ReasonCode.STRICT_TOPOLOGY, text)


def overlap(device: DeviceGrant, claims: Sequence[DeviceClaim]) -> Reason:
    """Others chose a device for the container of which another one has what it was to have alone."""
    text = f"others chose {device} for it, which it should not have beside {_holders_text(claims)}"
    return Reason(ReasonCode.DEVICES_OVERLAP, text)


def claimed_twice(devices: Sequence[DeviceGrant], claims: Sequence[DeviceClaim]) -> Reason:
    """A saved grant claims more of devices than another one leaves: both stay counted, as both containers run."""
    text = f"{grants_text(devices)} of its saved grant also held by {_holders_text(claims)}: counted for both"
    return Reason(ReasonCode.DEVICES_LOST, f"{text}; create this container again so that it gets others")


def _holders_text(claims: Iterable[DeviceClaim]) -> str:
    """Return who holds what, those with most first: ``gpu 0, gpu 1 by default/pod/container``."""
    by_holder: dict[str, list[str]] = {}
    for claim in claims:
        names = by_holder.setdefault(holder_name(claim.holder), [])
        if str(claim.device) not in names:
            names.append(str(claim.device))
    order = sorted(by_holder.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return some([f"{some(names, _SHOWN)} by {who}" for who, names in order], _SHOWN, "; ")
