"""What holds for the costs of every machine: random ones, and those captured from real hardware."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings

from policies.devices.costs import MachineCosts, compile_costs, cost_text, type_of
from sysfs.discover import discover_tree
from sysfs.model import Machine
from tests.fakes.machines import machines
from tests.golden.machines.captures import OTHER_MACHINES, OURS, others, ours
from tests.unit.policies.devices.costs.derived import by_pair


def check(machine: Machine) -> None:
    """Every pair is said, in both directions alike, from 0 to 100, and what is farther never costs less."""
    listing = MachineCosts(machine).listing()
    compile_costs(listing)
    assert cost_text(listing)
    costs = by_pair(listing)
    count = len(listing.present)
    assert len(costs) == count * (count - 1)
    assert all(type(cost) is int and 0 <= cost <= 100 for cost in costs.values())
    assert all(costs[other, one] == cost for (one, other), cost in costs.items())
    assert {type_of(name) for name in listing.present} <= {"cpu", "memory", "pci"}
    for cpu in machine.cpus:
        row = {other.id: costs[f"cpu/cpu{cpu.id}", f"cpu/cpu{other.id}"] for other in machine.cpus if other != cpu}
        inside = [row[other] for other in machine.nodes[_at(machine, cpu.node)].cpus if other != cpu.id]
        beyond = [row[other.id] for other in machine.cpus if other.node != cpu.node]
        siblings = [row[other] for other in machine.cores[cpu.core].cpus if other != cpu.id]
        assert set(siblings) <= {0}
        assert max(inside, default=0) <= min(beyond, default=100)
        for cache in machine.caches:
            if cpu.id in cache.cpus:
                within = [row[c] for c in cache.cpus if c != cpu.id and c in machine.nodes[_at(machine, cpu.node)].cpus]
                without = [cost for other, cost in row.items() if other not in cache.cpus]
                assert max(within, default=0) <= min(without, default=100)
    _check_nodes(machine, costs)
    _check_devices(machine, costs)


def _check_nodes(machine: Machine, costs: dict[tuple[str, str], int]) -> None:
    for node in machine.nodes:
        for cpu in node.cpus:
            reached = [
                (node.distance_to(other.id), costs[f"cpu/cpu{cpu}", f"memory/node{other.id}"])
                for other in machine.nodes
                if other.memory_bytes
            ]
            in_order = [cost for _, cost in sorted(reached)]
            assert in_order == sorted(in_order)
            break


def _check_devices(machine: Machine, costs: dict[tuple[str, str], int]) -> None:
    """Devices below one port are never farther than those below one host bridge, and so on outwards."""
    names = {one for one, _ in costs}
    devices = {f"pci/{d.address}": d for d in machine.devices if f"pci/{d.address}" in names}
    by_level: dict[int, set[int]] = {}
    for (one, a), (other, b) in permutations(devices.items(), 2):
        if costs[one, other] == 0:  # functions of one device
            continue
        shared = sum(mine == theirs for mine, theirs in zip(a.bridges, b.bridges, strict=False))
        level = 0 if shared > 1 else 1 if shared else 2 if a.node == b.node >= 0 else 3
        by_level.setdefault(level, set()).add(costs[one, other])
    levels = [by_level[level] for level in sorted(by_level)]
    assert all(max(near) <= min(far) for near, far in pairwise(levels))


def _at(machine: Machine, node: int) -> int:
    return [known.id for known in machine.nodes].index(node)


@settings(max_examples=40, deadline=None)
@given(machines())
def test_costs_of_any_machine(machine: Machine) -> None:
    check(machine)


@pytest.mark.parametrize("name", sorted(file.name.removesuffix(".tar.xz") for file in OURS.glob("*.tar.xz")))
def test_costs_of_our_captures(name: str) -> None:
    check(ours(name))


@pytest.mark.parametrize(("file", "root"), OTHER_MACHINES)
def test_costs_of_captures_from_elsewhere(file: str, root: str) -> None:
    check(discover_tree(others(file, root)))
