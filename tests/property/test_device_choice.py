"""Random histories of containers with devices, and sets held against an enumeration.

No device has two holders, a released one is free again, nothing that runs loses or gets one, and a set that is said to
be the cheapest is.
"""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import pytest

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import Allocations, Grant, Placed, Request
from policies.builder import build_policy
from policies.device_grants import DeviceGrant, cost_names
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import DeviceInventory
from policies.devices.costs import CostListing, DeviceCatalog, Inventory, Missing, compile_costs, type_of
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from policies.topology_aware.devices.reasons import ChosenDevices
from policies.topology_aware.devices.step import DeviceStep
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.random_devices import random_amounts, random_inventory, random_listing, random_topology
from tests.property.random_requests import random_request
from tests.unit.policies.build import context_of, request, tree_of

STEPS = 40


def random_machine(rng: random.Random) -> Machine:
    shape = {"packages": rng.choice((1, 2)), "nodes": rng.choice((1, 2)), "cores": rng.choice((2, 3)), "threads": 2}
    return describe(shape | {"memory": "8Gi"})


def policy_on(machine: Machine, found: Inventory, rules: TopologyOptions) -> Policy:
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=rules)
    return build_policy("topology-aware", machine, options, DeviceInventory((), costs=found))


class World:
    """A policy with what is held; ``given`` is what each container got when it was created."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.machine = random_machine(self.rng)
        self.inventory = random_inventory(self.rng, self.machine)
        self.rules = random_topology(self.rng)
        self.policy = policy_on(self.machine, self.inventory, self.rules)
        self.held = Allocations()
        self.given: dict[object, tuple[DeviceGrant, ...]] = {}
        self.placed = 0

    def step(self, number: int) -> None:
        grants = self.held.grants
        if not grants or self.rng.random() < 0.6:
            self.create(number)
        elif self.rng.random() < 0.5:
            self.release(self.rng.choice(grants))
        elif self.rng.random() < 0.6:
            self.resize(self.rng.choice(grants))
        else:
            self.restart()
        self.check()

    def create(self, number: int) -> None:
        wanted = random_request(self.machine, self.rng, number)
        wanted = replace(
            wanted, localities=(), preferences=replace(wanted.preferences, devices=DeviceAsk(random_amounts(self.rng)))
        )
        decision = self.policy.decide(self.held, wanted)
        again = policy_on(self.machine, self.inventory, self.rules).decide(self.held, wanted)
        assert repr(decision) == repr(again)
        if not isinstance(decision, Placed):
            return
        self.placed += 1
        grant = decision.grant
        counts = {amount.kind: amount.count for amount in wanted.preferences.devices.counts}
        assert Counter(map(type_of, cost_names(grant.devices))) == Counter(counts)
        assert set(cost_names(grant.devices)) <= {name for names in self.inventory.devices.values() for name in names}
        self.check_nodes(grant)
        self.held = self.held.with_grants(*decision.moved, grant)
        self.given[grant.container] = grant.devices

    def check_nodes(self, grant: Grant) -> None:
        alignment = grant.request.alignment
        if alignment is None or not alignment.is_strict:
            return
        catalog = DeviceCatalog(self.machine, self.inventory)
        nodes = [catalog.nodes(name) for name in cost_names(grant.devices)]
        assert all(not mask or mask & alignment.nodes.mask for mask in nodes), grant

    def release(self, grant: Grant) -> None:
        self.held = self.held.without(grant.container)
        del self.given[grant.container]
        freed = [name for name in cost_names(grant.devices) if name in self.inventory.devices.get(type_of(name), ())]
        if not freed:
            return
        kind = type_of(freed[0])
        taken = {name for other in self.held.grants for name in cost_names(other.devices)}
        left = [name for name in self.inventory.devices[kind] if name not in taken]
        every = request("all/of", 0, devices=DeviceAsk((DeviceAmount(kind, len(left)),)), preserve_cpu=True)
        answer = self.policy.decide(self.held, every)
        assert isinstance(answer, Placed)
        assert freed[0] in cost_names(answer.grant.devices) or freed[0] in taken

    def resize(self, grant: Grant) -> None:
        wanted = replace(
            grant.request, cpu_request_mcpu=self.rng.choice((0, 500, 1000, 2000)), previous=grant.as_running
        )
        decision = self.policy.decide(self.held, wanted)
        if isinstance(decision, Placed):
            self.held = self.held.with_grants(*decision.moved, decision.grant)

    def restart(self) -> None:
        """Other cost files: nothing that runs changes, and what is asked from now on is of the new ones."""
        self.inventory = random_inventory(self.rng, self.machine)
        policy = policy_on(self.machine, self.inventory, self.rules)
        found = policy.reinstate(self.held)
        assert (found.allocations, found.replaced, found.unplaced) == (self.held, (), ())
        assert policy.pinnings(self.held) == self.policy.pinnings(self.held)
        self.policy = policy

    def check(self) -> None:
        assert {grant.container: grant.devices for grant in self.held.grants} == self.given
        counts = Counter(name for grant in self.held.grants for name in grant.devices)
        assert all(count == 1 for count in counts.values()), counts


@pytest.mark.parametrize("seed", range(100))
def test_devices_have_one_holder_each_and_stay_with_it(seed: int) -> None:
    world = World(seed)
    for number in range(STEPS):
        world.step(number)
    assert world.placed


def test_whole_policies_with_devices_are_met_in_these_histories() -> None:
    """Else the rules above could hold for want of cases."""
    worlds = [World(seed) for seed in range(100)]
    assert {world.rules.policy for world in worlds} == set(TopologyPolicy)
    assert any(world.rules.prefers_chosen_sets for world in worlds)


def said(listing: CostListing, missing: Missing, one: str, other: str) -> int:
    """The cost of a pair by the words of the format, both ways together."""
    costs = [
        [int(line.cost) for line in listing.lines if a in line.sources and b in line.targets]
        for a, b in ((one, other), (other, one))
    ]
    there, back = (found[0] if found else None for found in costs)
    if missing is Missing.MIRROR:
        there, back = (back if there is None else there), (there if back is None else back)
    return (there or 0) + (back or 0)


def cheapest(machine: Machine, listing: CostListing, missing: Missing, wanted: Request, count: int) -> int:
    """The cost of the cheapest set with so many CPUs, by looking at all of them; every CPU is free."""
    catalog = DeviceCatalog(machine, Inventory(compile_costs(listing), missing))
    lowest = [min(CpuSet(part)) for part in catalog.parts]
    sizes = [part.bit_count() for part in catalog.parts]
    spreads = [s for s in product(range(count + 1), repeat=len(sizes)) if sum(s) == count and list(s) <= sizes]
    spreads = [s for s in spreads if all(n <= size for n, size in zip(s, sizes, strict=True))]
    by_kind = [
        combinations([name for name in listing.present if type_of(name) == amount.kind], amount.count)
        for amount in wanted.preferences.devices.counts
        if amount.kind in catalog.costed
    ]
    best = None
    for devices in product(*map(list, by_kind)):
        names = [name for some in devices for name in some]
        among = sum(said(listing, missing, a, b) for a, b in combinations(names, 2))
        for spread in spreads:
            cost = among
            for p, n in enumerate(spread):
                row = catalog.row(p)
                cost += n * (n - 1) // 2 * row[p] + sum(n * m * row[q] for q, m in enumerate(spread) if q > p)
                cost += n * sum(said(listing, missing, name, f"cpu/cpu{lowest[p]}") for name in names)
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


@pytest.mark.parametrize("seed", range(120))
def test_a_set_that_is_proved_is_the_cheapest_of_all(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_machine(rng)
    listing, missing = random_listing(rng, machine), rng.choice(tuple(Missing))
    catalog = DeviceCatalog(machine, Inventory(compile_costs(listing), missing))
    present = Counter(map(type_of, listing.present))
    some = tuple(DeviceAmount(a.kind, min(a.count, present[a.kind])) for a in random_amounts(rng))
    count = rng.randint(1, 3)
    wanted = request("a/c", 1000 * count, devices=DeviceAsk(some))
    node = MachineDevices(machine, DeviceInventory((), costs=Inventory(compile_costs(listing), missing)))
    context = replace(context_of(tree_of(machine), wanted), machine_devices=node)
    choice = DeviceStep(context).chosen(context)
    assert isinstance(choice, ChosenDevices)
    text = choice.reasons[0].text
    if not any(amount.kind in catalog.costed for amount in some):
        assert "no cost of them is known" in text
        return
    assert ", proved to be the lowest" in text
    assert f": cost {cheapest(machine, listing, missing, wanted, count)} with" in text
