"""Choose the devices of a container: the cheapest set of those that are free, together with CPUs. Pure.

A choice is bounded: CPUs are joined to parts (``policies.costs.catalog``), devices to groups of interchangeable ones,
and the search has a constant number of steps. The same holdings and the same request give the same devices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.base import DeviceLocality, Reason, Rejected
from policies.choose import Chooser, Stock, TakenDevices, take_devices
from policies.costs.demand import SetRequest
from policies.costs.graph import layered
from policies.costs.model import CPU_TYPE, type_of
from policies.costs.select import Selection, SelectOptions, select_in
from policies.costs.table import Group
from policies.device_grants import DeviceGrant, by_cost, cost_names, listed_only
from policies.topology_aware.device_choice import reasons
from policies.topology_aware.device_choice.cpu_supply import CpuRoom, cpu_room
from policies.topology_aware.device_choice.inventory import (
    DeviceStock,
    earlier_devices,
    fixed_devices,
    nodes_of,
    still_serve,
    stock_of,
)
from policies.topology_aware.supply.context import PlacementContext, localities_of
from sysfs.cpuset import CpuSet, NodeSet

MOST_GROUPS: Final = 48
"""Groups of interchangeable devices that a choice compares; of more, those that are nearest to free CPUs."""
SELECT: Final = SelectOptions(steps=800, walk_steps=100)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The devices of a container by type and name, where those are whose costs tell CPUs apart, and why."""

    devices: tuple[DeviceGrant, ...]
    near: tuple[DeviceLocality, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Of one type: the devices that may be taken, in order, those of them that have to be, and how many in all."""

    names: tuple[str, ...]
    must: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class _OfSet:
    """A ``policies.choose.Chooser`` that knows one set."""

    names: tuple[str, ...]

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the members of the set that are available."""
        return tuple(name for name in self.names if name in available)[:size]


def refused(context: PlacementContext) -> Rejected | None:
    """Return why the container cannot have the devices that it asks for, wherever it is placed."""
    catalog = context.catalog
    if catalog is None or not context.request.preferences.devices or fixed_devices(context) is not None:
        return None
    stock = stock_of(context, catalog)
    for amount in stock.wanted:
        if amount.kind not in catalog.devices:
            return Rejected(reasons.unknown(amount.kind, catalog.devices))
        if amount.count > len(stock.free[amount.kind]):
            return Rejected(reasons.short(stock, amount.kind, amount.count))
    return None


def choose_devices(context: PlacementContext) -> DeviceChoice | Rejected:
    """Return the devices of the container, within the NUMA nodes that it is kept within.

    ``refused`` has found enough of them to be free.
    """
    fixed = fixed_devices(context)
    if fixed is not None:
        return _unchanged(context, by_cost(fixed), runs=True)
    catalog = context.catalog
    if catalog is None or not context.request.preferences.devices:
        return DeviceChoice(())
    stock, had = stock_of(context, catalog), by_cost(earlier_devices(context))
    places, earlier = _places(context, stock), cost_names(had)
    if earlier and still_serve(stock, earlier) and not _elsewhere(context, places, earlier):
        return _unchanged(context, tuple(_granted(context, name) for name in earlier), runs=False)
    candidates: dict[str, Candidates] = {}
    for amount in stock.wanted:
        found = _candidates(context, stock.free[amount.kind], places[amount.kind], amount.count)
        if isinstance(found, int):
            where = _nodes_text(context)
            return Rejected(reasons.outside(stock, amount.kind, amount.count, found, where))
        candidates[amount.kind] = found
    solution, scope = solve(context, stock, candidates)
    return _taken(context, stock, places, (solution, scope), earlier)


def _taken(
    context: PlacementContext,
    stock: DeviceStock,
    places: Mapping[str, Mapping[str, int | None]],
    solved: tuple[tuple[tuple[str, ...], Selection] | None, reasons.Scope],
    earlier: tuple[str, ...],
) -> DeviceChoice:
    """Take the devices in the kubelet's order, the chosen set where there is one."""
    found, scope = solved
    names, solution = found if found is not None else ((), None)
    taken: list[TakenDevices] = []
    for amount in stock.wanted:
        is_known = amount.kind in stock.catalog.costed
        chooser = _OfSet(tuple(name for name in names if type_of(name) == amount.kind)) if is_known else None
        available = Stock(stock.free[amount.kind], places[amount.kind])
        taken.append(take_devices(available, amount.count, _affinity(context), chooser))
    devices = tuple(name for each in taken for name in sorted_names(stock, each.devices))
    why = [reasons.lost(earlier)] if earlier else []
    why.append(reasons.chosen(devices, solution, scope))
    if solution is not None and solution.terms:
        why.append(reasons.costs(solution.terms))
    quiet = [name for name in devices if name in stock.catalog.silent]
    if quiet:
        why.append(reasons.silent(quiet))
    beyond = [name for each in taken for name in each.unaligned]
    if beyond:
        why.append(reasons.beyond(beyond, _nodes_text(context)))
    return DeviceChoice(tuple(_granted(context, name) for name in devices), _localities(context, devices), tuple(why))


def _granted(context: PlacementContext, name: str) -> DeviceGrant:
    return listed_only(name) if context.allocator is None else context.allocator.joined.granted(name)


def cheapest_anywhere(context: PlacementContext, stock: DeviceStock) -> Chooser:
    """Return a chooser that knows the cheapest set of all wanted types, with CPUs; none where too few are free."""
    if any(amount.count > len(stock.free[amount.kind]) for amount in stock.wanted):
        return _OfSet(())
    every = {amount.kind: Candidates(stock.free[amount.kind], (), amount.count) for amount in stock.wanted}
    found, _ = solve(context, stock, every)
    return _OfSet(found[0] if found is not None else ())


def sorted_names(stock: DeviceStock, devices: Sequence[str]) -> tuple[str, ...]:
    """Return devices of one type in the order of their names."""
    wanted = frozenset(devices)
    return tuple(name for kind in map(type_of, devices[:1]) for name in stock.free[kind] if name in wanted)


def solve(
    context: PlacementContext, stock: DeviceStock, candidates: Mapping[str, Candidates]
) -> tuple[tuple[tuple[str, ...], Selection] | None, reasons.Scope]:
    """Return the cheapest set of these candidates with CPUs, and what it was chosen among.

    None where no costs are known of these types.
    """
    catalog = stock.catalog
    costed = {kind: wanted for kind, wanted in candidates.items() if kind in catalog.costed}
    room = cpu_room(context, catalog.parts) if costed else CpuRoom(0, 0, ())
    if not costed:
        return None, reasons.Scope(0, 0)
    parts = [i for i, count in enumerate(room.parts) if count] if room.count else []
    found, is_cut = _device_groups(stock, costed, parts)
    first = len(catalog.parts)
    indexes = [*parts, *(first + g for g, _ in found)]
    rows = [catalog.row(i) for i in indexes]
    groups = [Group(CPU_TYPE, catalog.cpu_groups[i].members[: room.parts[i]]) for i in parts]
    groups += [Group(catalog.groups[g].kind, members) for g, members in found]
    counts = {kind: wanted.count for kind, wanted in costed.items()} | ({CPU_TYPE: room.count} if room.count else {})
    must = frozenset(name for wanted in costed.values() for name in wanted.must)
    graph = layered(groups, [[row[j] for j in indexes] for row in rows], SetRequest(counts, must=must), catalog.scale)
    solution = select_in(graph, SELECT)
    names = tuple(name for name in solution.names if type_of(name) != CPU_TYPE)
    return (names, solution), reasons.Scope(room.count, room.asked, is_cut)


def _device_groups(
    stock: DeviceStock, candidates: Mapping[str, Candidates], parts: Sequence[int]
) -> tuple[list[tuple[int, tuple[str, ...]]], bool]:
    """Return the groups, by index, with their members that may be taken; and whether some are left out."""
    catalog, found = stock.catalog, []
    allowed = {kind: frozenset(wanted.names) for kind, wanted in candidates.items()}
    for g, group in enumerate(catalog.groups):
        if group.kind in allowed:
            members = tuple(name for name in group.members if name in allowed[group.kind])
            if members:
                found.append((g, members))
    if len(found) <= MOST_GROUPS:
        return found, False
    return sorted(_nearest(stock, candidates, parts, found)), True


def _nearest(
    stock: DeviceStock,
    candidates: Mapping[str, Candidates],
    parts: Sequence[int],
    found: Sequence[tuple[int, tuple[str, ...]]],
) -> list[tuple[int, tuple[str, ...]]]:
    """Return of each type the groups nearest to the parts: an equal share of all, and as many as are asked for."""
    catalog, first = stock.catalog, len(stock.catalog.parts)
    result = []
    for kind, wanted in candidates.items():
        must = frozenset(wanted.must)

        def distance(each: tuple[int, tuple[str, ...]], must: frozenset[str] = must) -> tuple[bool, int, int]:
            row = catalog.row(first + each[0])
            return must.isdisjoint(each[1]), min((row[part] for part in parts), default=0), each[0]

        count = 0
        ours = sorted((each for each in found if catalog.groups[each[0]].kind == kind), key=distance)
        for i, each in enumerate(ours):
            is_needed = count < wanted.count or not must.isdisjoint(each[1])
            if i < MOST_GROUPS // len(candidates) or is_needed:
                result.append(each)
                count += len(each[1])
    return result


def _candidates(
    context: PlacementContext, free: tuple[str, ...], places: Mapping[str, int | None], count: int
) -> Candidates | int:
    """Return the devices to choose from: those on the container's nodes; too few of them: all of these, and others.

    How many there are on its nodes where it may not have others.
    """
    affinity, alignment = _affinity(context), context.request.alignment
    if affinity is None or all(places[name] is None for name in free):
        return Candidates(free, (), count)
    inside = tuple(name for name in free if (places[name] or 0) & affinity)
    if len(inside) >= count:
        return Candidates(inside, (), count)
    if alignment is not None and alignment.is_strict:
        return len(inside)
    return Candidates(free, inside, count)


def _affinity(context: PlacementContext) -> int | None:
    alignment = context.request.alignment
    return None if alignment is None else alignment.nodes.mask


def _nodes_text(context: PlacementContext) -> str:
    alignment = context.request.alignment
    return "any NUMA node" if alignment is None else reasons.nodes_of(alignment)


def _places(context: PlacementContext, stock: DeviceStock) -> dict[str, dict[str, int | None]]:
    """Return the NUMA nodes of the devices of each type."""
    every = sum(1 << node.id for node in context.tree.machine.nodes if node.cpus)
    return {amount.kind: nodes_of(stock.catalog, amount.kind, every) for amount in stock.wanted}


def _elsewhere(
    context: PlacementContext, places: Mapping[str, Mapping[str, int | None]], devices: Sequence[str]
) -> bool:
    """Return whether one of these devices is on other nodes than the container is kept within."""
    affinity = _affinity(context)
    nodes = (places[type_of(name)][name] for name in devices)
    return affinity is not None and any(mask is not None and not mask & affinity for mask in nodes)


def _unchanged(context: PlacementContext, devices: tuple[DeviceGrant, ...], *, runs: bool) -> DeviceChoice:
    """Return the devices that it has or had, and where they were when they were chosen."""
    if not devices:
        return DeviceChoice(())
    names = cost_names(devices)
    saved = localities_of(context.request, names)
    if not saved and context.own is not None:
        saved = localities_of(context.own.request, names)
    return DeviceChoice(devices, saved or _localities(context, names), (reasons.kept(names, runs=runs),))


def _localities(context: PlacementContext, devices: Sequence[str]) -> tuple[DeviceLocality, ...]:
    """Return where those devices are whose costs tell CPUs apart."""
    catalog = context.catalog
    near = [(name, catalog.near(name)) for name in devices] if catalog is not None else []
    return tuple(DeviceLocality(name, CpuSet(cpus), NodeSet()) for name, cpus in near if cpus)
