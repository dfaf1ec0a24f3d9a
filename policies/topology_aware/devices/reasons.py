"""Sentences about devices: which a container has and why, who holds what it cannot have."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.alignment import Alignment
from policies.base import DeviceLocality, Reason
from policies.device_grants import WHOLE, DeviceGrant, ExclusivePolicy, cost_names
from policies.device_requests import DeviceAmount
from policies.devices import CUT, Closeness, DeviceAllocation, DeviceAllocator
from policies.devices.costs import CPU_TYPE, CostTerm, CostValue, Selection, type_of
from policies.topology_aware.devices.held import UNHEALTHY, DeviceClaim
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import NodeSet
from sysfs.known_words import did_you_mean
from sysfs.text import numbered, plural, some

_SHOWN: Final = 8  # devices of a type, terms of a cost, places, holders or types in a sentence
_CLOSE: Final = {
    Closeness.SAME_PCIE: "on the same PCIe",
    Closeness.SAME_NUMA_NODE: "on the same NUMA node, as not every PCIe has one of each",
    Closeness.SAME_MACHINE: "anywhere on the machine, as not every NUMA node has one of each",
}


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The devices that were chosen for a container, why, and where those are whose place is known."""

    devices: tuple[DeviceGrant, ...] = ()
    reasons: tuple[Reason, ...] = ()
    near: tuple[DeviceLocality, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The CPUs of a choice: ``cpus`` of the ``asked`` ones were counted; ``is_cut``: not all free devices."""

    cpus: int
    asked: int
    is_cut: bool = False


def devices_text(devices: Iterable[str]) -> str:
    """Return devices in words, by type.

    >>> devices_text(["example.com/gpu/gpu0", "example.com/gpu/gpu1", "example.com/nic/n0"])
    'example.com/gpu gpu0, gpu1 and example.com/nic n0'
    """
    by_kind: dict[str, list[str]] = {}
    for device in devices:
        by_kind.setdefault(type_of(device), []).append(device.rpartition("/")[2])
    return _listed([f"{kind} {some(names, _SHOWN)}" for kind, names in by_kind.items()])


def grants_text(devices: Sequence[DeviceGrant]) -> str:
    """Return devices in words, with what a container has of each that is not the whole.

    >>> grants_text([DeviceGrant("gpu", 0, 100), DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")])
    'gpu 0, 1 of 100 of rdma 1 VF 0000:51:00.1'
    """
    names = [str(grant) if grant.amount >= WHOLE else f"{grant.amount} of {WHOLE} of {grant}" for grant in devices]
    return some(names, _SHOWN)


def held_text(devices: Sequence[DeviceGrant]) -> str:
    """Return devices in words: by their names where they were asked for by the types of cost files, else by number."""
    names = cost_names(devices)
    return devices_text(names) if names else grants_text(devices)


def kept(devices: Sequence[DeviceGrant], *, runs: bool) -> Reason:
    """The container has the devices that it had."""
    stay, have = ("stays", "is") if len(devices) == 1 else ("stay", "are")
    names = held_text(devices)
    text = f"its {names} {stay} with it while it runs" if runs else f"its earlier {names} {have} free and kept"
    return Reason(ReasonCode.DEVICES_KEPT, text)


def lost(devices: Sequence[DeviceGrant]) -> Reason:
    """The container cannot have the devices of its earlier attempt again."""
    text = f"its earlier {held_text(devices)} could not be had again: others are chosen"
    return Reason(ReasonCode.DEVICES_LOST, text)


def left_to_pod(devices: Sequence[DeviceGrant]) -> Reason:
    """The container has devices that an ended container of its pod had."""
    return Reason(
        ReasonCode.DEVICES_KEPT, f"{held_text(devices)}: from an ended container of its pod, which keeps them"
    )


def claimed_twice(devices: Sequence[DeviceGrant], claims: Sequence[DeviceClaim]) -> Reason:
    """A saved grant has devices, or more of them than another one leaves: both stay counted, as both containers run."""
    by_name = bool(devices[0].cost_name)
    holders = claims[0].holder if by_name else _holders_text(claims)
    text = f"{held_text(devices)} of its saved grant also held by {holders}: counted for both"
    return Reason(ReasonCode.DEVICES_LOST, f"{text}; create this container again so that it gets others")


def chosen(devices: Sequence[str], found: Selection | None, scope: Scope) -> list[Reason]:
    """The devices that were chosen, what they cost, and whether that is the least; None: no costs tell them apart."""
    names = devices_text(devices)
    if found is None:
        return [Reason(ReasonCode.DEVICES, f"{names}: the first that are free, as no cost of them is known")]
    proved = "proved to be the lowest" if found.is_optimal and not scope.is_cut else "not proved to be the lowest"
    beside = ""
    if scope.cpus:
        beside = f" with {plural(scope.cpus, 'CPU')}"
        beside += f" of the {scope.asked}" if scope.cpus != scope.asked else ""
    greedy = f"; greedy walk alone: {_cost(found.greedy_cost)}"
    why = Reason(ReasonCode.DEVICES, f"{names}: cost {_cost(found.cost)}{beside}, {proved}{greedy}")
    return [why, _costs(found.terms)] if found.terms else [why]


def _costs(terms: Sequence[CostTerm]) -> Reason:
    """The parts of the cost of a set."""
    words = [
        f"{_types(term.types)} {_cost(term.cost)} ({plural(term.pairs, 'pair')})"
        for term in sorted(terms, key=lambda term: -term.cost)[:_SHOWN]
    ]
    more = f", {len(terms) - _SHOWN} more terms" if len(terms) > _SHOWN else ""
    return Reason(ReasonCode.DEVICE_COSTS, f"what the set costs: {', '.join(words)}{more}")


def silent(devices: Sequence[str]) -> Reason:
    """Devices that say nothing about costs have been chosen while others of their type do."""
    does = "says nothing about its costs, which counts" if len(devices) == 1 else "say nothing of costs, which count"
    text = f"{devices_text(devices)} {does} as 0, and may have been chosen for that"
    return Reason(ReasonCode.DEVICES_SILENT, text)


def beyond_by_cost(devices: Sequence[str], alignment: Alignment) -> Reason:
    """Some of its devices are on other nodes than the container."""
    text = f"{devices_text(devices)} not on {nodes_of(alignment)}: too few are free there"
    return Reason(ReasonCode.DEVICES_BEYOND, text)


def unknown(kind: str, known: Iterable[str]) -> Reason:
    """No cost file has devices of this type."""
    names = sorted(known)
    listed = f"listed types: {some(names, _SHOWN)}" if names else "they list none; add them to a file of costs.dir"
    hint = did_you_mean(kind, names, listed)
    return Reason(
        ReasonCode.DEVICES_UNKNOWN, f"wanted devices of type {kind}, which the cost files do not list: {hint}"
    )


def short(amount: DeviceAmount, free: int, present: int, holders: Mapping[str, int]) -> Reason:
    """Too few devices of a type are free; ``holders`` has who holds how many of the others."""
    nobodys = [f"; {why}: {holders[why]}" for why in (UNHEALTHY, CUT) if holders.get(why)]
    by_number = sorted(holders.items(), key=lambda pair: (-pair[1], pair[0]))
    held = [f"{n} by {who}" for who, n in by_number if who not in (UNHEALTHY, CUT)]
    text = f"wanted {amount.count} of {amount.kind}, free {free} of {present}"
    text += f"; held: {some(held, _SHOWN)}" if held else ""
    return Reason(ReasonCode.DEVICES_SHORT, "".join((text, *nobodys)))


def outside_by_cost(amount: DeviceAmount, inside: int, free: int, alignment: Alignment) -> Reason:
    """Too few devices of a type are on the NUMA nodes that the container is kept within."""
    text = f"wanted {amount.count} of {amount.kind} on {nodes_of(alignment)}, where its topology policy keeps it"
    return Reason(ReasonCode.STRICT_TOPOLOGY, f"{text}: free {inside} there, {free - inside} elsewhere")


def allocated(allocator: DeviceAllocator, answer: DeviceAllocation, passed_over: int) -> Reason:
    """The devices that were chosen, where they are, and what decided.

    ``passed_over`` are nodes that were as good but for their CPUs and memory.
    """
    devices = answer.grants
    parts = [f"{grants_text(devices)}: {_places_text(allocator, devices)}"]
    for choice in answer.choices:
        if len(choice.devices) > 1:
            parts.append(f"{' and '.join(choice.devices)} {_CLOSE[choice.closeness]}")
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


def beyond(alignment: Alignment, problem: str) -> Reason:
    """The devices are on other nodes than the container; ``problem`` is why they are not on its nodes."""
    return Reason(ReasonCode.DEVICES_BEYOND, f"its devices are not on {nodes_of(alignment)}: {problem}")


def read(warnings: Sequence[str]) -> Reason:
    """Annotations that were read otherwise than they are written."""
    return Reason(ReasonCode.ALLOCATION_READ, "; ".join(warnings))


def refused(problem: str, kinds: Iterable[str] = (), claims: Collection[DeviceClaim] = ()) -> Reason:
    """The devices cannot be granted: ``problem`` is what is missing, and where. Then the holders of these types."""
    wanted = frozenset(kinds)
    held = _holders_text(claim for claim in claims if claim.device.kind in wanted)
    return Reason(ReasonCode.ALLOCATION_REFUSED, f"{problem}; held: {held}" if held else problem)


def outside(
    problem: str, alignment: Alignment, kinds: Iterable[str] = (), claims: Collection[DeviceClaim] = ()
) -> Reason:
    """The devices cannot be granted on the nodes that it is kept within. Then who keeps others from devices."""
    text = f"{problem}; its topology policy keeps it on {nodes_of(alignment)}"
    wanted = frozenset(kinds)
    held = _holders_text(claim for claim in claims if claim.device.kind in wanted and claim.device.exclusive)
    return Reason(ReasonCode.STRICT_TOPOLOGY, f"{text}; held: {held}" if held else text)


def overlap(device: DeviceGrant, claims: Sequence[DeviceClaim]) -> Reason:
    """Others chose a device for the container of which another one has what it was to have alone."""
    text = f"others chose {device} for it, which it should not have beside {_holders_text(claims)}"
    return Reason(ReasonCode.DEVICES_OVERLAP, text)


def nodes_of(alignment: Alignment) -> str:
    """Return the nodes that a container is kept within, in words."""
    return numbered("NUMA node", alignment.nodes)


def _holders_text(claims: Iterable[DeviceClaim]) -> str:
    """Return who holds what: ``gpu 0, gpu 1 (PCIeLevel) by default/pod/container``.

    Those that keep others from devices come first, then those with most.
    """
    by_holder: dict[str, list[str]] = {}
    alone = set()
    for claim in claims:
        names, policy = by_holder.setdefault(claim.holder, []), claim.device.exclusive
        name = f"{claim.device} ({policy})" if policy else str(claim.device)
        if name not in names:
            names.append(name)
        if policy:
            alone.add(claim.holder)
    order = sorted(by_holder.items(), key=lambda pair: (pair[0] not in alone, -len(pair[1]), pair[0]))
    return some([f"{some(names, _SHOWN)} by {who}" for who, names in order], _SHOWN, "; ")


def _types(types: tuple[str, str]) -> str:
    one, other = ("CPUs" if kind == CPU_TYPE else kind for kind in types)
    return f"among {one}" if one == other else f"{one} and {other}"


def _cost(cost: CostValue) -> str:
    return f"{float(cost):.6g}" if isinstance(cost, Fraction) else str(cost)


def _listed(parts: Sequence[str]) -> str:
    if len(parts) > _SHOWN:
        parts = [*parts[:_SHOWN], f"{len(parts) - _SHOWN} more types"]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
