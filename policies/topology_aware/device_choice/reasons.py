"""Sentences about devices of cost files: which a container has and why, and why it gets none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.alignment import Alignment
from policies.base import Grant, Reason
from policies.costs.model import CPU_TYPE, CostValue, type_of
from policies.costs.select import CostTerm, Selection
from policies.known_words import similar
from policies.topology_aware.device_choice.inventory import UNHEALTHY, DeviceStock, holder_name
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.text import numbered, plural, some

_SHOWN: Final = 8  # devices of a type, terms of a cost, holders or types in a sentence


@dataclass(frozen=True, slots=True)
class Scope:
    """What a choice was made among: ``cpus`` of the ``asked`` ones were counted; ``is_cut``: not all free devices."""

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


def chosen(devices: Sequence[str], found: Selection | None, scope: Scope) -> Reason:
    """The devices that were chosen, what they cost, and whether that is the least; None: no costs tell them apart."""
    names = devices_text(devices)
    if found is None:
        return Reason(ReasonCode.DEVICES, f"{names}: the first that are free, as no cost of them is known")
    proved = "proved to be the lowest" if found.is_optimal and not scope.is_cut else "not proved to be the lowest"
    beside = ""
    if scope.cpus:
        beside = f" with {plural(scope.cpus, 'CPU')}"
        beside += f" of the {scope.asked}" if scope.cpus != scope.asked else ""
    greedy = f"; greedy walk alone: {_cost(found.greedy_cost)}"
    return Reason(ReasonCode.DEVICES, f"{names}: cost {_cost(found.cost)}{beside}, {proved}{greedy}")


def costs(terms: Sequence[CostTerm]) -> Reason:
    """What the cost of a set is made of."""
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


def kept(devices: Sequence[str], *, runs: bool) -> Reason:
    """The container has the devices that it had."""
    have = "are" if len(devices) > 1 else "is"
    how = "stay with it while it runs" if runs and len(devices) > 1 else "stays with it while it runs" if runs else ""
    text = f"its {devices_text(devices)} {how}" if runs else f"its earlier {devices_text(devices)} {have} free and kept"
    return Reason(ReasonCode.DEVICES_KEPT, text)


def lost(devices: Sequence[str]) -> Reason:
    """The container cannot have the devices of its earlier attempt again."""
    text = f"its earlier {devices_text(devices)} could not be had again: others are chosen"
    return Reason(ReasonCode.DEVICES_LOST, text)


def beyond(devices: Sequence[str], nodes: str) -> Reason:
    """Some of its devices are on other nodes than the container."""
    return Reason(ReasonCode.DEVICES_BEYOND, f"{devices_text(devices)} not on {nodes}: too few are free there")


def unknown(kind: str, known: Iterable[str]) -> Reason:
    """No cost file has devices of this type."""
    names = sorted(known)
    close = similar(kind, names)
    listed = f"listed types: {some(names, _SHOWN)}" if names else "they list none; add them to a file of costs.dir"
    hint = f"did you mean {close}?" if close else listed
    return Reason(
        ReasonCode.DEVICES_UNKNOWN, f"wanted devices of type {kind}, which the cost files do not list: {hint}"
    )


def short(stock: DeviceStock, kind: str, count: int) -> Reason:
    """Too few devices of a type are free; who holds the others."""
    present, free = len(stock.catalog.devices[kind]), len(stock.free[kind])
    text = f"wanted {count} of {kind}, free {free} of {present}"
    counts = _by_holder(stock, kind)
    unhealthy = counts.pop(UNHEALTHY, 0)
    held = [f"{n} by {who}" for who, n in counts.items()]
    text += f"; held: {some(held, _SHOWN)}" if held else ""
    return Reason(ReasonCode.DEVICES_SHORT, f"{text}; unhealthy: {unhealthy}" if unhealthy else text)


def outside(stock: DeviceStock, kind: str, count: int, inside: int, nodes: str) -> Reason:
    """Too few devices of a type are on the NUMA nodes that the container is kept within."""
    elsewhere = len(stock.free[kind]) - inside
    text = f"wanted {count} of {kind} on {nodes}, where its topology policy keeps it: free {inside} there, {elsewhere}"
    return Reason(ReasonCode.STRICT_TOPOLOGY, f"{text} elsewhere")


def claimed_twice(devices: Sequence[str], holder: Grant) -> Reason:
    """A saved grant has devices that another one has too: both stay counted, as both containers run."""
    text = f"{devices_text(devices)} of its saved grant also held by {holder_name(holder)}: counted for both"
    return Reason(ReasonCode.DEVICES_LOST, f"{text}; create this container again so that it gets others")


def nodes_of(alignment: Alignment) -> str:
    """Return the nodes that a container is kept within, in words."""
    return numbered("NUMA node", alignment.nodes)


def _by_holder(stock: DeviceStock, kind: str) -> dict[str, int]:
    """Return by holder how many devices of this type it has, those with most first."""
    counts: dict[str, int] = {}
    for device in stock.catalog.devices[kind]:
        if (who := stock.holders.get(device)) is not None:
            counts[who] = counts.get(who, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _types(types: tuple[str, str]) -> str:
    one, other = ("CPUs" if kind == CPU_TYPE else kind for kind in types)
    return f"among {one}" if one == other else f"{one} and {other}"


def _cost(cost: CostValue) -> str:
    return f"{float(cost):.6g}" if isinstance(cost, Fraction) else str(cost)


def _listed(parts: Sequence[str]) -> str:
    if len(parts) > _SHOWN:
        parts = [*parts[:_SHOWN], f"{len(parts) - _SHOWN} more types"]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
