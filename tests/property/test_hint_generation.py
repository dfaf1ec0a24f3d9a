"""Hints of random machines and requests are those that the rules give when every node set is tried."""

from collections.abc import Iterable, Sequence
from random import Random

import pytest

from policies.hints import CpuProvider, DeviceProvider, DeviceRequest, Hints, MemoryAmounts, MemoryProvider, Topology
from sysfs.cpuset import CpuSet, NodeSet
from tests.property import plain_hints as plain

CASES = 400
SEEDS = range(3)


def as_plain(hints: Hints) -> plain.Hints:
    assert isinstance(hints, Sequence)
    return [(frozenset(NodeSet(hint.nodes or 0)), hint.preferred) for hint in hints]


def mask(ids: Iterable[int]) -> int:
    return CpuSet.of(ids).mask


def some(random: Random, of: Iterable[int], chance: float = 0.5) -> set[int]:
    return {one for one in of if random.random() < chance}


class CpuCase:
    """A machine of some nodes, with empty ones and gaps between their numbers, and a request."""

    def __init__(self, random: Random) -> None:
        nodes = sorted(random.sample(range(9), random.randint(1, 5)))
        numbers = iter(random.sample(range(40), 40))
        self.cpus = {node: {next(numbers) for _ in range(random.choice((0, 1, 2, 4)))} for node in nodes}
        online = set().union(*self.cpus.values())
        self.reusable = some(random, online, 0.1) if random.random() < 0.5 else set()
        self.free = some(random, online, 0.7) - self.reusable
        self.request = random.randint(1, 8)
        sockets: list[set[int]] = [set() for _ in range(random.randint(1, 3))]
        for node in nodes:
            random.choice(sockets).add(node)
        self.sockets = [socket for socket in sockets if socket]
        self.topology = Topology(
            tuple((node, mask(cpus)) for node, cpus in sorted(self.cpus.items())), tuple(map(mask, self.sockets))
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_socket_aligned", [False, True])
def test_cpu_hints_are_those_of_the_rules(seed: int, *, is_socket_aligned: bool) -> None:
    random = Random(seed)
    for _ in range(CASES):
        case = CpuCase(random)
        offers = CpuProvider(
            case.topology, case.request, mask(case.free), mask(case.reusable), is_socket_aligned=is_socket_aligned
        ).offers()
        sockets = case.sockets if is_socket_aligned else []
        assert offers is not None
        assert as_plain(offers["cpu"]) == plain.cpu_hints(case.cpus, case.request, case.free, case.reusable, sockets)


@pytest.mark.parametrize("seed", SEEDS)
def test_cpus_that_are_held_give_the_hints_they_would_give_free(seed: int) -> None:
    random = Random(seed)
    for _ in range(CASES):
        case = CpuCase(random)
        if not case.free:
            continue
        offers = CpuProvider(case.topology, len(case.free), 0, mask(case.reusable), mask(case.free)).offers()
        assert offers is not None
        assert as_plain(offers["cpu"]) == plain.cpu_hints(case.cpus, len(case.free), case.free, set())


@pytest.mark.parametrize("seed", SEEDS)
def test_device_hints_are_those_of_the_rules(seed: int) -> None:
    """Devices may be on no node, on several, or on nodes that the machine does not have."""
    random = Random(seed)
    for _ in range(CASES):
        machine = set(random.sample(range(8), random.randint(1, 5)))
        named = {
            f"d{i}": None if random.random() < 0.15 else set(random.sample(range(8), random.choice((0, 1, 1, 1, 2, 3))))
            for i in range(random.randint(1, 8))
        }
        reusable = {device for device in named if random.random() < 0.1}
        available = {device for device in named if random.random() < 0.7} - reusable
        count = random.randint(0, len(available | reusable))
        masks = {device: None if nodes is None else mask(nodes) for device, nodes in named.items()}
        request = DeviceRequest(count, masks, frozenset(available), frozenset(reusable))
        offers = DeviceProvider(mask(machine), {"gpu": request}).offers()
        if all(nodes is None for nodes in named.values()):
            assert offers["gpu"] is None
            continue
        assert as_plain(offers["gpu"]) == plain.device_hints(machine, count, named, available, reusable)


def random_memory(random: Random) -> plain.PlainMemory:
    """Return the memory of a machine on which some nodes are in use, alone or in groups."""
    nodes = sorted(random.sample(range(8), random.randint(1, 5)))
    rest, groups = random.sample(nodes, len(nodes)), []
    while rest and random.random() < 0.6:
        size = random.choice((1, 1, 2, 3))
        groups.append(frozenset(rest[:size]))
        rest = rest[size:]
    found = {}
    for node in nodes:
        allocatable = {"memory": random.randint(0, 8), "hugepages-2Mi": random.randint(0, 4)}
        free = {name: random.randint(0, amount) for name, amount in allocatable.items()}
        group = next((group for group in groups if node in group), frozenset[int]())
        found[node] = plain.PlainNode(allocatable, free if group else allocatable, group)
    return plain.PlainMemory(found, {group: {"memory": random.randint(0, 3)} for group in groups[:1]})


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_hints_are_those_of_the_rules(seed: int) -> None:
    random = Random(seed)
    for _ in range(CASES):
        machine = random_memory(random)
        request = {"memory": random.randint(0, 12)}
        if random.random() < 0.4:
            request["hugepages-2Mi"] = random.randint(0, 6)
        offers = MemoryProvider(
            {node: MemoryAmounts(each.allocatable, each.free) for node, each in machine.nodes.items()},
            request,
            frozenset(mask(each.group) for each in machine.nodes.values() if each.group),
            {mask(nodes): amounts for nodes, amounts in machine.reusable.items()},
        ).offers()
        expected = machine.hints(request)
        if not expected:
            assert offers is None
            continue
        assert offers is not None
        assert list(offers) == list(request)
        assert [as_plain(hints) for hints in offers.values()] == [expected] * len(request)
