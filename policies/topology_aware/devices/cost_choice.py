"""Choose devices of cost files: the cheapest set of those that are free, together with CPUs. Pure.

A choice is bounded: CPUs are joined to parts (``DeviceCatalog``), devices to groups of interchangeable ones, and the
search has a constant number of steps. The same holdings and the same request give the same devices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.alignment import Alignment
from policies.base import Reason, Rejected
from policies.device_grants import by_cost, cost_names
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import GPU, WHOLE_GPUS, CannotAllocate, JoinedDevices, Piece
from policies.devices.costs import (
    CPU_TYPE,
    DeviceCatalog,
    Group,
    Selection,
    SelectOptions,
    SetRequest,
    layered,
    select_in,
    type_of,
)
from policies.topology_aware.devices import reasons
from policies.topology_aware.devices.held import HeldDevices, earlier_devices
from policies.topology_aware.devices.place_choice import PlaceSearch
from policies.topology_aware.devices.reasons import ChosenDevices, Scope
from policies.topology_aware.devices.supply import cpu_room
from policies.topology_aware.supply.context import PlacementContext

MOST_GROUPS: Final = 48
"""Groups of interchangeable devices that a choice compares; of more, those that are nearest to free CPUs."""
SELECT: Final = SelectOptions(steps=800, walk_steps=100)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Of one type: the devices that may be taken, in order, those of them that have to be, and how many in all.

    ``why`` is there where links have chosen them.
    """

    names: tuple[str, ...]
    must: tuple[str, ...]
    count: int
    why: tuple[Reason, ...] = ()


class DeviceStock:
    """The devices that there are for a container, or its pod, that asks for ``wanted``.

    ``free`` are the devices of each type that no other container holds, in the order of their names.
    """

    def __init__(self, held: HeldDevices, wanted: Iterable[DeviceAmount]) -> None:
        """Look at what others hold."""
        self._held = held
        self._joined = held.node.joined
        self.catalog: Final[DeviceCatalog] = held.node.catalog
        self.wanted: Final = tuple(wanted)
        listed = {amount.kind: self.catalog.devices.get(amount.kind, ()) for amount in self.wanted}
        found = {
            kind: tuple(name for name in names if held.is_free(self._joined.named(name)))
            for kind, names in listed.items()
        }
        self.free: Final = _each_once(self._joined, self.wanted, found)

    def lacking(self) -> Rejected | None:
        """Return why these devices cannot be granted, wherever the container is placed."""
        for amount in self.wanted:
            if amount.kind not in self.catalog.devices:
                return Rejected(reasons.unknown(amount.kind, self.catalog.devices))
            if amount.count > len(self.free[amount.kind]):
                present = len(self.catalog.devices[amount.kind])
                short = reasons.short(amount, len(self.free[amount.kind]), present, self._holders(amount.kind))
                return Rejected(short)
        return None

    def _holders(self, kind: str) -> Mapping[str, int]:
        """Return how many devices of a type each holder has, most first."""
        pieces = map(self._joined.named, self.catalog.devices[kind])
        return Counter(filter(None, map(self._held.holder, (p for p in pieces if not self._held.is_free(p)))))

    def still_serve(self, devices: Sequence[str]) -> bool:
        """Return whether these are exactly as many of each type as wanted, all of them present and free."""
        wanted = Counter({amount.kind: amount.count for amount in self.wanted})
        free = Counter(map(type_of, devices)) == wanted
        return free and all(name in self.free.get(type_of(name), ()) for name in devices)


def _each_once(
    joined: JoinedDevices, wanted: Iterable[DeviceAmount], free: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    """Return these names without those of devices that another one names; the type that has fewest to spare is first.

    No container can have a device and a virtual function of it: the functions are more.
    """
    if joined.is_one_to_one:
        return free
    spare = {amount.kind: len(free[amount.kind]) - amount.count for amount in wanted}
    kept: dict[str, tuple[str, ...]] = {}
    seen: list[Piece] = []
    for kind in sorted(free, key=lambda kind: (spare[kind], kind)):
        pieces = {name: joined.named(name) for name in free[kind]}
        names = set()
        for name in sorted(pieces, key=lambda name: not pieces[name].vf):
            if not any(pieces[name].overlaps(other) for other in seen):
                seen.append(pieces[name])
                names.add(name)
        kept[kind] = tuple(name for name in free[kind] if name in names)
    return {kind: kept[kind] for kind in free}


def choose_by_cost(context: PlacementContext, held: HeldDevices, stock: DeviceStock) -> ChosenDevices | Rejected:
    """Return the devices of the container, within the NUMA nodes that it is kept within; enough of them are free."""
    alignment, joined = context.request.alignment, held.node.joined
    by_kind = (held.node.nodes_by_cost(amount.kind) for amount in stock.wanted)
    nodes = {name: mask for places in by_kind for name, mask in places.items()}
    had = by_cost(earlier_devices(context))
    earlier = cost_names(had)
    if earlier and stock.still_serve(earlier) and not _elsewhere(nodes, alignment, earlier):
        return ChosenDevices(tuple(map(joined.granted, earlier)), (reasons.kept(had, runs=False),))
    candidates: dict[str, Candidates] = {}
    for amount in stock.wanted:
        found = _candidates(context, held, stock.free[amount.kind], nodes, amount)
        if isinstance(found, Rejected):
            return found
        candidates[amount.kind] = found
    solution, scope = solve(context, stock, candidates)
    cheapest = frozenset(solution.names if solution is not None else ())
    devices: list[str] = []
    for kind, found in candidates.items():
        # Of a type without costs the first that are free are as good as any.
        is_known = kind in stock.catalog.costed
        in_order = dict.fromkeys((*found.must, *found.names))
        devices += [name for name in found.names if name in cheapest] if is_known else [*in_order][: found.count]
    why = [reasons.lost(had)] if earlier else []
    why += [reason for found in candidates.values() for reason in found.why]
    why += reasons.chosen(devices, solution, scope)
    # What states no costs counts as 0 and may have won by that alone.
    silent = [name for name in devices if name in stock.catalog.silent]
    why += [reasons.silent(silent)] if silent else []
    if alignment is not None and (beyond := _elsewhere(nodes, alignment, devices)):
        why.append(reasons.beyond_by_cost(beyond, alignment))
    return ChosenDevices(tuple(map(joined.granted, devices)), tuple(why))


def _candidates(
    context: PlacementContext,
    held: HeldDevices,
    free: tuple[str, ...],
    nodes: Mapping[str, int | None],
    amount: DeviceAmount,
) -> Candidates | Rejected:
    """Return the devices on the container's nodes; too few of them: all of these, and others where it may have some.

    Of GPUs whose links are known those that partition, NUMA nodes and links give: these go before costs, by any name.
    """
    alignment, inside = context.request.alignment, free
    # A type whose costs tell no nodes apart is on all of them.
    if alignment is not None and any(nodes[name] is not None for name in free):
        inside = tuple(name for name in free if (nodes[name] or 0) & alignment.nodes.mask)
    if len(inside) < amount.count:
        if alignment is not None and alignment.is_strict:
            return Rejected(reasons.outside_by_cost(amount, len(inside), len(free), alignment))
        return Candidates(free, inside, amount.count)
    pieces = {name: held.node.joined.named(name) for name in inside}
    gpus = {p.device.key: name for name, p in pieces.items() if p.device is not None and not p.vf}
    links = held.node.allocator.links
    is_linked = links is not None and all(kind == GPU and minor in links.indices for kind, minor in gpus)
    # Links are known between whole GPUs: with a VF or part among the candidates they leave some out.
    if not is_linked or not 1 < amount.count <= len(gpus) == len(inside):
        return Candidates(inside, _left_to_pod(held, inside)[: amount.count], amount.count)
    asked = DeviceAsk(requests=((WHOLE_GPUS[0], amount.count),))
    found = PlaceSearch(held, asked, dict.fromkeys(gpus, "")).find(context, None)
    if isinstance(found, CannotAllocate):
        return Rejected(reasons.refused(found.problem))
    taken = {gpus[grant.key] for grant in found.answer.grants}
    names = tuple(name for name in inside if name in taken)
    why = reasons.allocated(held.node.allocator, found.answer, found.passed_over)
    return Candidates(names, names, amount.count, (why,))


def _left_to_pod(held: HeldDevices, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of these devices that ended containers of the pod had."""
    pieces = (piece for device in held.left_to_pod for piece in held.node.joined.held(device))
    left = frozenset(name for piece in pieces for name in piece.names)
    return tuple(name for name in names if name in left)


def _elsewhere(nodes: Mapping[str, int | None], alignment: Alignment | None, devices: Iterable[str]) -> tuple[str, ...]:
    """Return those of the devices that are on other nodes than the container is kept within."""
    here = -1 if alignment is None else alignment.nodes.mask
    return tuple(name for name in devices if (mask := nodes[name]) is not None and not mask & here)


def cheapest_anywhere(context: PlacementContext, stock: DeviceStock) -> frozenset[str]:
    """Return the cheapest set of all wanted types, with CPUs; none where too few are free."""
    if any(amount.count > len(stock.free[amount.kind]) for amount in stock.wanted):
        return frozenset()
    every = {amount.kind: Candidates(stock.free[amount.kind], (), amount.count) for amount in stock.wanted}
    solution, _ = solve(context, stock, every)
    return frozenset(solution.names if solution is not None else ())


def solve(
    context: PlacementContext, stock: DeviceStock, candidates: Mapping[str, Candidates]
) -> tuple[Selection | None, Scope]:
    """Return the cheapest set of these candidates with CPUs, and what it was chosen among.

    None where no costs are known of these types.
    """
    catalog = stock.catalog
    costed = {kind: wanted for kind, wanted in candidates.items() if kind in catalog.costed}
    if not costed:
        return None, Scope(0, 0)
    room = cpu_room(context, catalog.parts)
    # With no CPUs to count, as where its cpuset is preserved, costs between devices decide alone.
    parts = [i for i, count in enumerate(room.parts) if count] if room.count else []
    found, is_cut = _device_groups(stock, costed, parts)
    first = len(catalog.parts)
    indexes = [*parts, *(first + g for g, _ in found)]
    rows = [catalog.row(i) for i in indexes]
    # CPUs of a part cost the same: as many as it has room for stand for all of them.
    groups = [Group(CPU_TYPE, catalog.cpu_groups[i].members[: room.parts[i]]) for i in parts]
    groups += [Group(catalog.groups[g].kind, members) for g, members in found]
    counts = {kind: wanted.count for kind, wanted in costed.items()} | ({CPU_TYPE: room.count} if room.count else {})
    must = frozenset(name for wanted in costed.values() for name in wanted.must)
    graph = layered(groups, [[row[j] for j in indexes] for row in rows], SetRequest(counts, must=must), catalog.scale)
    is_cut = is_cut or any(wanted.why for wanted in candidates.values())
    return select_in(graph, SELECT), Scope(room.count, room.asked, is_cut)


def _device_groups(
    stock: DeviceStock, candidates: Mapping[str, Candidates], parts: Sequence[int]
) -> tuple[list[tuple[int, tuple[str, ...]]], bool]:
    """Return the groups, by index, with their members that may be taken; and whether some are left out.

    Of too many those nearest to the parts stay: an equal share of each type, and as many as are asked for.
    """
    catalog, first = stock.catalog, len(stock.catalog.parts)
    names = {kind: frozenset(wanted.names) for kind, wanted in candidates.items()}
    groups = ((g, group) for g, group in enumerate(catalog.groups) if group.kind in names)
    each = ((g, tuple(name for name in group.members if name in names[group.kind])) for g, group in groups)
    found = [(g, members) for g, members in each if members]
    if len(found) <= MOST_GROUPS:
        return found, False
    result = []
    for kind, wanted in candidates.items():
        must, count = frozenset(wanted.must), 0
        ours = [(g, members) for g, members in found if catalog.groups[g].kind == kind]
        near = {g: min(map(catalog.row(first + g).__getitem__, parts), default=0) for g, _ in ours}
        order = sorted((must.isdisjoint(members), near[g], g, members) for g, members in ours)
        for i, (is_free, _, g, members) in enumerate(order):
            if i < MOST_GROUPS // len(candidates) or count < wanted.count or not is_free:
                result.append((g, members))
                count += len(members)
    return sorted(result), True
