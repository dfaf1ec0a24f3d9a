"""Spread a number of devices over PCIe groups at the lowest cost: exact, by dynamic programming over the groups.

The costs, in this order: NUMA nodes touched; per device, types without a device on its NUMA node, then on its PCIe;
PCIe groups touched; the nodes, then the groups of them that were not in use; the numbers of the groups, lowest first.
All but the last are sums, so that a group adds to whatever is best for the groups before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

_FIELD_BITS: Final = 20  # of each sum: more devices than a node can have


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """The offer of a PCIe group. Groups of the same ``node`` stand beside each other.

    From ``least`` to ``most`` devices are taken. ``far`` and ``unmatched`` are the costs of each device that is taken.
    ``gives`` is what taking any of them adds to the needs, ``node_gives`` what the first device on its node adds.
    ``is_used`` and ``is_node_used``: devices of the group, or of its node, are in use.
    """

    node: int
    most: int
    far: int = 0
    unmatched: int = 0
    is_used: bool = False
    gives: tuple[int, ...] = ()
    node_gives: tuple[int, ...] = ()
    least: int = 0
    is_node_used: bool = False


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The best way to take devices: how many of each group, and the cost, comparable for the same groups."""

    counts: tuple[int, ...]
    cost: int


# The devices taken so far, what they add to the needs, and whether the present node is touched.
_State = tuple[int, tuple[int, ...], bool]


@dataclass(frozen=True, slots=True)
class _Step:
    """The cheapest way into a state: how many of the last group, and the way before it."""

    cost: int
    count: int
    before: "_Step | None"


def cheapest_spread(
    offers: Sequence[GroupOffer], wanted: int, needs: Sequence[int] = (), largest: int | None = None
) -> GroupCounts | None:
    """Return the cheapest way to take ``wanted`` devices that reaches every need; None where there is none.

    ``largest`` is the most devices of any group where costs of several calls are compared.

    >>> cheapest_spread([GroupOffer(0, 1), GroupOffer(1, 2), GroupOffer(1, 2)], 2).counts
    (0, 2, 0)
    """
    bits = (max((offer.most for offer in offers), default=0) if largest is None else largest).bit_length()
    id_bits = bits * len(offers)
    left = sum(offer.most for offer in offers)
    if left < wanted:
        return None
    start = tuple(0 for _ in needs)
    states: dict[_State, _Step] = {(0, start, False): _Step(0, 0, None)}
    node: int | None = None
    for number, offer in enumerate(offers):
        if offer.node != node:
            states = _untouched(states)
            node = offer.node
        left -= offer.most
        shift = id_bits - bits * (number + 1)
        states = _taken(states, offer, (wanted, left), needs, (id_bits, shift, bits))
    # The last group brings each way to the number that is wanted.
    reached = [step for (_, sums, _), step in states.items() if sums == tuple(needs)]
    if not reached:
        return None
    best = min(reached, key=lambda step: step.cost)
    return GroupCounts(_counts(best), best.cost)


def equal_spreads(
    offers: Sequence[GroupOffer], wanted: int, needs: Sequence[int], largest: int, cost: int
) -> Iterator[GroupCounts]:
    """Yield the ways that cost as little as a cheapest one with this cost, apart from the numbers of the groups."""
    bits = largest.bit_length()
    id_bits = bits * len(offers)

    def ways(number: int, left: int, state: _State, step: _Step) -> Iterator[GroupCounts]:
        # Costs only grow from group to group.
        if step.cost >> id_bits > cost >> id_bits:
            return
        if number == len(offers):
            if state[:2] == (wanted, tuple(needs)):
                yield GroupCounts(_counts(step), step.cost)
            return
        offer = offers[number]
        states = {state: step}
        if number == 0 or offer.node != offers[number - 1].node:
            states = _untouched(states)
        layout = id_bits, id_bits - bits * (number + 1), bits
        for after, more in _taken(states, offer, (wanted, left - offer.most), needs, layout).items():
            yield from ways(number + 1, left - offer.most, after, more)

    start = 0, tuple(0 for _ in needs), False
    yield from ways(0, sum(offer.most for offer in offers), start, _Step(0, 0, None))


def _untouched(states: dict[_State, _Step]) -> dict[_State, _Step]:
    """Return the states on entering another node."""
    found: dict[_State, _Step] = {}
    for (count, sums, _), step in states.items():
        state = (count, sums, False)
        if state not in found or step.cost < found[state].cost:
            found[state] = step
    return found


def _taken(
    states: dict[_State, _Step],
    offer: GroupOffer,
    bound: tuple[int, int],
    needs: Sequence[int],
    layout: tuple[int, int, int],
) -> dict[_State, _Step]:
    """Return the states after a group. ``bound``: the devices wanted, and those that later groups have."""
    wanted, left = bound
    id_bits, shift, bits = layout
    full = (1 << bits) - 1
    each = _cost(far=offer.far, unmatched=offer.unmatched) << id_bits
    once = _cost(groups=1, idle_groups=not offer.is_used) << id_bits
    touch = _cost(nodes=1, idle_nodes=not offer.is_node_used) << id_bits
    found: dict[_State, _Step] = {}
    for (count, sums, is_touched), step in states.items():
        # No fewer than later groups can make up for: each state can still reach the number.
        for more in range(max(offer.least, wanted - count - left), min(offer.most, wanted - count) + 1):
            # The more of a group are taken, the lower are the numbers: a group of a lower number weighs more.
            cost = step.cost + (full - more << shift)
            state = (count, sums, is_touched)
            if more:
                cost += more * each + once + (0 if is_touched else touch)
                added = _added(sums, offer, needs, is_first=not is_touched)
                state = (count + more, added, True)
            known = found.get(state)
            if known is None or cost < known.cost:
                found[state] = _Step(cost, more, step)
    return found


def _cost(
    *, nodes: int = 0, far: int = 0, unmatched: int = 0, groups: int = 0, idle_nodes: int = 0, idle_groups: int = 0
) -> int:
    """Return costs as one number, of which the first weighs most."""
    return reduce(
        lambda sum_of, cost: (sum_of << _FIELD_BITS) + cost, (nodes, far, unmatched, groups, idle_nodes, idle_groups)
    )


def _added(sums: tuple[int, ...], offer: GroupOffer, needs: Sequence[int], *, is_first: bool) -> tuple[int, ...]:
    """Return the sums with what a group gives, no more than the needs."""
    if not needs:
        return sums
    gives = offer.gives or (0,) * len(needs)
    node_gives = (offer.node_gives if is_first else ()) or (0,) * len(needs)
    # Cut at the needs: ways that meet them are one state, however much more they give.
    return tuple(min(need, has + a + b) for need, has, a, b in zip(needs, sums, gives, node_gives, strict=True))


def _counts(step: _Step) -> tuple[int, ...]:
    counts: list[int] = []
    here: _Step | None = step
    while here is not None and here.before is not None:
        counts.append(here.count)
        here = here.before
    return tuple(reversed(counts))
