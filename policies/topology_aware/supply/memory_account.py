"""The memory promised to containers: each one's zone, widest zone and bytes, and an account of the sums per zone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from policies.base import ContainerKey, CpuKind, Grant, HugePageLimit, QosClass, Request
from policies.topology_aware.supply.hugepages import HugePageAccount
from policies.topology_aware.supply.memory_nodes import DEFAULT_KINDS, MemoryNodes, node_ids
from policies.topology_aware.supply.memory_packing import Packing, ZonePromise, in_order, promised_inside
from sysfs.model import MemoryKind

PRIORITY = {QosClass.BEST_EFFORT: 0, QosClass.BURSTABLE: 1, QosClass.GUARANTEED: 2}
FIRST = PRIORITY[QosClass.GUARANTEED]  # others are widened for these


def promised_bytes(request: Request) -> int:
    """Return the bytes that a container is promised: its memory request, or the limit if there is no request."""
    return request.memory_request_bytes or request.memory_limit_bytes or 0


def wanted_kinds(request: Request) -> tuple[MemoryKind, ...]:
    """Return the kinds of memory that a container asks for; every kind but HBM if it names none."""
    return request.preferences.memory_kinds or DEFAULT_KINDS


class Promise(NamedTuple):
    """One container's promise. ``zone`` may be widened up to ``widest``; if they are equal it never is."""

    container: ContainerKey
    priority: int
    zone: int
    widest: int
    promised_bytes: int
    is_new: bool = False  # the container that is placed: it widens before its equals
    huge_pages: tuple[HugePageLimit, ...] = ()


def promise_of(nodes: MemoryNodes, grant: Grant) -> Promise:
    """Return the promise of a grant. Memory that is not written counts in the whole machine.

    Reserved containers and those that cri-proxy does not pin keep their zone. A strict preference keeps a container
    within its kinds, a cold start that lasts within PMEM.
    """
    request = grant.request
    zone = grant.mems.mask & nodes.every or nodes.every
    if grant.kind in (CpuKind.PRESERVE, CpuKind.RESERVED) or request.preferences.preserve_memory:
        widest = zone
    elif grant.is_cold:
        widest = zone | nodes.pmem & widest_zone(nodes, request)
    else:
        widest = zone | widest_zone(nodes, request)
    priority, pages = PRIORITY[request.pod.qos], request.huge_pages
    return Promise(request.container, priority, zone, widest, promised_bytes(request), huge_pages=pages)


def widest_zone(nodes: MemoryNodes, request: Request) -> int:
    """Return the most nodes that a container may get: all, or under a strict preference those of its kinds.

    Of these, those that it is kept within where its memory had a hint.
    """
    zone = nodes.of_kinds(wanted_kinds(request)) if request.preferences.strict_memory else nodes.every
    return zone & (aligned_zone(nodes, request) if has_strict_zone(request) else nodes.every)


def aligned_zone(nodes: MemoryNodes, request: Request) -> int:
    """Return the memory of the nodes that hints were merged to; all where there was no merge, or they are gone."""
    alignment = request.alignment
    return nodes.every if alignment is None else alignment.mems.mask & nodes.every or nodes.every


def has_memory_hints(request: Request) -> bool:
    """Return whether its memory takes part in a merge: that of Guaranteed pods, as in the kubelet's memory manager."""
    return request.pod.qos is QosClass.GUARANTEED and not request.preferences.preserve_memory


def has_strict_zone(request: Request) -> bool:
    """Return whether its memory may only be on the nodes that hints were merged to."""
    return request.alignment is not None and request.alignment.is_strict and has_memory_hints(request)


Promises = tuple[ZonePromise, ...]
"""The sums of promises by zone; no zone is named twice."""


class MemoryLayouts:
    """The last layout for each way to look at the promises (``MemoryAccount``): the next ones differ by few zones.

    A cache: whether promises can be kept does not depend on how others are laid out (``memory_packing``). It may be
    asked by several threads, and a layout that was handed out stays as it is.
    """

    def __init__(self, nodes: MemoryNodes) -> None:
        """Start without a layout."""
        self._nodes: Final = nodes
        self._last: Final[dict[str, tuple[Promises, Packing]]] = {}
        self._failed: Final[dict[str, Promises]] = {}
        self._free: tuple[Promises | None, Mapping[int, int]] = None, {}

    def of(self, view: str, promises: Promises) -> Packing | None:
        """Return these promises laid out; None if not all can be kept. ``view`` names those that differ by little."""
        if self._failed.get(view) == promises:
            return None
        before, packing = self._last.get(view) or ((), Packing(self._nodes))
        if before == promises:
            return packing
        found = _changed(packing, before, promises)
        # The last layout that held stays the one to start from: a layout that failed is not complete.
        if found is None:
            self._failed[view] = promises
        else:
            self._last[view] = promises, found
        return found

    def free_bytes(self, promises: Promises) -> Mapping[int, int]:
        """Return ``estimated_free`` beside these promises: a decision asks for it several times."""
        beside, free = self._free
        if beside is not promises:
            free = estimated_free(self._nodes, promises)
            # One assignment: a thread that asks meanwhile sees a pair that belongs together.
            self._free = promises, free
        return free


def _changed(packing: Packing, before: Promises, promises: Promises) -> Packing | None:
    """Return the layout of the second promises, given that of the first ones; None if not all can be kept."""
    old, new, result = dict(before), dict(promises), packing.copy()
    changed = sorted(zone for zone, _ in old.items() ^ new.items())
    by_zone = {zone: new.get(zone, 0) - old.get(zone, 0) for zone in changed}
    # Removed first: what is added may need that room.
    for zone, more in by_zone.items():
        if more < 0:
            result.remove(zone, -more)
    fits = all(not result.add(zone, more) for zone, more in by_zone.items() if more > 0)
    return result if fits else None


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """A snapshot of all promises: ``zones`` as they are, ``widest`` with every zone as wide as it may become.

    ``yielding``: with only the zones of containers that are not Guaranteed as wide as they may become. ``huge_pages``
    are promised by the zones as they are. ``promises`` are those of memory.
    """

    nodes: MemoryNodes
    layouts: MemoryLayouts = field(compare=False, repr=False)
    zones: Promises = ()
    widest: Promises = ()
    yielding: Promises = ()
    huge_pages: HugePageAccount = HugePageAccount({})  # noqa: RUF009 - frozen
    promises: Mapping[ContainerKey, Promise] = field(default_factory=dict)

    def plus(self, *promises: Promise) -> "MemoryAccount":
        """Return the account with these promises made."""
        return self.changed((), promises)

    def minus(self, *promises: Promise) -> "MemoryAccount":
        """Return the account with these promises released."""
        return self.changed(promises, ())

    def changed(self, gone: Sequence[Promise], come: Sequence[Promise]) -> "MemoryAccount":
        """Return the account with some promises released and others made."""
        counted = [(c, -c.promised_bytes) for c in gone if c.promised_bytes]
        counted += [(c, c.promised_bytes) for c in come if c.promised_bytes]
        huge_pages = self.huge_pages
        for promises, sign in ((gone, -1), (come, 1)):
            if paged := [(c.zone, pages) for c in promises for pages in c.huge_pages]:
                huge_pages = huge_pages.changed(paged, sign)
        if not counted:
            return self if huge_pages is self.huge_pages else replace(self, huge_pages=huge_pages)
        standing = dict(self.promises)
        for promise, amount in counted:
            # Releases come first in the list: a promise that changes is released and made under one key.
            if amount > 0:
                standing[promise.container] = promise
            else:
                del standing[promise.container]
        return MemoryAccount(
            self.nodes,
            self.layouts,
            _summed(self.zones, ((c.zone, amount) for c, amount in counted)),
            _summed(self.widest, ((c.widest, amount) for c, amount in counted)),
            _summed(self.yielding, ((c.zone if c.priority >= FIRST else c.widest, amount) for c, amount in counted)),
            huge_pages,
            standing,
        )

    def free_bytes(self) -> Mapping[int, int]:
        """Return an estimate of what is left of each node."""
        return self.layouts.free_bytes(self.zones)

    @property
    def holds(self) -> bool:
        """Return whether all promises can be kept at once."""
        return self.layouts.of("zones", self.zones) is not None

    def takes(self, zone: int, amount_bytes: int) -> bool:
        """Return whether this promise could be kept as well."""
        layout = self.layouts.of("zones", self.zones)
        return layout is not None and layout.takes(zone, amount_bytes)

    def could_take(self, zone: int, amount_bytes: int) -> bool:
        """Return whether this promise could be kept as well if the zones of others were widened."""
        layout = self.layouts.of("widest", self.widest)
        return layout is not None and layout.takes(zone, amount_bytes)

    def taking(self, zones: set[int], amount_bytes: int, *, yielding: bool = False) -> set[int]:
        """Return those of the zones that could take so much, if containers that are not Guaranteed are ``yielding``."""
        view, promises = ("yielding", self.yielding) if yielding else ("zones", self.zones)
        layout = self.layouts.of(view, promises)
        return layout.taking(zones, amount_bytes) if layout is not None else set()

    def most(self, zone: int) -> int:
        """Return the most that one more Guaranteed container could be promised, as its topology hints count it."""
        layout = self.layouts.of("yielding", self.yielding)
        if layout is not None:
            return layout.most(zone)
        # More is promised already than there is.
        return max(0, self.nodes.capacity(zone) - promised_inside(self.yielding, zone))


def empty_account(nodes: MemoryNodes, huge_pages: HugePageAccount = HugePageAccount({})) -> MemoryAccount:  # noqa: B008 - frozen
    """Return the account in which nothing is promised."""
    return MemoryAccount(nodes, MemoryLayouts(nodes), huge_pages=huge_pages)


def estimated_free(nodes: MemoryNodes, promises: Iterable[ZonePromise]) -> dict[int, int]:
    """Return what is left of each node if containers allocate near their CPUs: good for comparing nodes only.

    A promise lies on the nodes of its zone that have CPUs, as evenly as they are free, before the others.
    """
    free = dict(nodes.capacity_bytes)
    local = nodes.local
    for zone, left in promises:
        # The kernel allocates on the node of the CPU first: nodes without CPUs fill up after the others.
        for tier in (zone & local, zone & ~local):
            if not tier or not left:
                continue
            there = node_ids(tier)
            room = sum(map(free.__getitem__, there))
            here = min(left, room)
            for node in there if here else ():
                free[node] -= free[node] * here // room
            left -= here  # noqa: PLW2901 - what the next tier gets
    return free


def _summed(promises: Iterable[ZonePromise], changes: Iterable[ZonePromise]) -> tuple[ZonePromise, ...]:
    sums = dict(promises)
    before = len(sums)
    for zone, amount in changes:
        sums[zone] = sums.get(zone, 0) + amount
    is_new = len(sums) > before
    left = tuple(sums.items()) if all(sums.values()) else tuple(promise for promise in sums.items() if promise[1])
    return in_order(left) if is_new else left  # in order as it was where no zone is new


def promises_of(nodes: MemoryNodes, grants: Iterable[Grant]) -> tuple[Promise, ...]:
    """Return the promises of these grants."""
    return tuple(promise_of(nodes, grant) for grant in grants)
