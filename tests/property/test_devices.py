"""Devices against enumeration on small machines, and histories of containers that come and go."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices import (
    CannotAllocate,
    DeviceAllocation,
    DeviceAllocator,
    DeviceInventory,
    DeviceQuestion,
    InventoryDevice,
    device_hints,
    pcie_groups,
)
from policies.hints import Hint
from tests.unit.policies.devices.build import GPUS, NICS, gpu, nic, question

BOTH = ("gpu", "rdma")
ALL = {"allocateStrategy": "ApplyForAll"}
EVERYTHING = (question({GPUS: 1}, hints={"gpu": ALL}), question({NICS: 100}, hints={"rdma": ALL}))


@st.composite
def machines(draw: st.DrawFn) -> DeviceInventory:
    """Up to five PCIe groups on up to three NUMA nodes, each with up to two GPUs and NICs."""
    devices: list[InventoryDevice] = []
    gpus = nics = 0
    for group in range(draw(st.integers(1, 5))):
        node = draw(st.sampled_from([0, 0, 1, 2]))
        for _ in range(draw(st.integers(0, 2))):
            devices.append(gpu(gpus, node, f"p{group}"))
            gpus += 1
        for _ in range(draw(st.integers(0, 2))):
            devices.append(nic(nics, node, f"p{group}", vfs=draw(st.integers(0, 2))))
            nics += 1
    return DeviceInventory(tuple(devices))


@dataclass(frozen=True)
class Place:
    """A device as the oracle sees it: its minor, NUMA node and PCIe."""

    minor: int
    node: int | None
    pcie: str | None


def places(machine: DeviceInventory, kind: str, held: Sequence[DeviceGrant]) -> list[Place]:
    """The idle devices of a type in the order in which ties are broken."""
    taken = {grant.minor for grant in held if grant.kind == kind}
    return [
        Place(device.minor, group.numa, group.pcie)
        for group in pcie_groups(machine.devices)
        for device in group.devices
        if device.kind == kind and device.minor not in taken
    ]


def rank(chosen: Sequence[Place], nics: Sequence[Place], wanted: int, used: set[str | None]) -> tuple[object, ...]:
    """How good a set of GPUs is with these NICs: the rule of docs/devices.md, spelled out."""
    nodes, pcie = {place.node for place in chosen}, {place.pcie for place in chosen}
    here = {found.pcie for found in nics}
    if pcie <= here and sum(found.pcie in pcie for found in nics) >= wanted:
        closeness = 0
    elif sum(found.node in nodes for found in nics) >= wanted:
        closeness = 1
    else:
        closeness = 2
    near = {found.node for found in nics}
    return (
        closeness,
        len(nodes),
        sum(place.node not in near for place in chosen),
        sum(place.pcie not in here for place in chosen),
        len(pcie),
        len(pcie - used),
    )


@settings(max_examples=400, deadline=None)
@given(machines(), st.integers(1, 4), st.sampled_from([100, 200, 300]), st.booleans(), st.data())
def test_the_search_finds_what_enumeration_finds(
    machine: DeviceInventory, count: int, amount: int, is_same: bool, data: st.DataObject
) -> None:
    numbers = data.draw(st.sets(st.integers(0, 19), max_size=3))
    taken = [device for number, device in enumerate(machine.devices) if number in numbers]
    held = [DeviceGrant(device.kind, device.minor, 100) for device in taken]
    gpus, nics = places(machine, "gpu", held), places(machine, "rdma", held)
    used = {device.pcie for device in taken}
    wanted = max(1, amount // 100)
    sets = [chosen for chosen in combinations(gpus, count) if len(nics) >= wanted]
    if is_same:
        sets = [chosen for chosen in sets if rank(chosen, nics, wanted, used)[0] == 0]
    asked = question({GPUS: count, NICS: amount}, BOTH, scope="SamePCIe" if is_same else "")
    found = DeviceAllocator(machine).allocate(asked, held)
    assert isinstance(found, CannotAllocate) == (not sets)
    if isinstance(found, CannotAllocate):
        return
    best = min(sets, key=lambda chosen: (rank(chosen, nics, wanted, used), [gpus.index(place) for place in chosen]))
    assert sorted(grant.minor for grant in found.of("gpu")) == sorted(place.minor for place in best)
    check_companions(found, best, nics, wanted, is_same=is_same)


def check_companions(
    found: DeviceAllocation, gpus: Sequence[Place], nics: Sequence[Place], wanted: int, *, is_same: bool
) -> None:
    by_minor = {place.minor: place for place in nics}
    given = [by_minor[grant.number] for grant in found.of("rdma")]
    pcie, nodes = {place.pcie for place in gpus}, {place.node for place in gpus}
    on_pcie = {place.pcie for place in given}
    assert wanted <= len(given) <= max(wanted, len(pcie))
    # Each PCIe that has a NIC gives one. Others are of the GPUs' nodes, or of any where those have too few.
    assert on_pcie >= {place.pcie for place in nics if place.pcie in pcie}
    assert len(given) <= wanted or all(place.node in nodes for place in given)
    assert not is_same or on_pcie == pcie


@settings(max_examples=150, deadline=None)
@given(machines(), st.data())
def test_hints_are_the_node_sets_on_which_a_request_can_be_met(machine: DeviceInventory, data: st.DataObject) -> None:
    assume(machine.devices)
    scope = data.draw(st.sampled_from(["", "SamePCIe"]))
    hint = {"requiredTopologyScope": data.draw(st.sampled_from(["", "PCIe", "NUMANode"]))}
    asked = question(
        {GPUS: data.draw(st.integers(1, 4)), NICS: data.draw(st.sampled_from([1, 200]))},
        BOTH,
        scope=scope,
        hints={data.draw(st.sampled_from(BOTH)): hint},
    )
    allocator = DeviceAllocator(machine)
    nodes = sorted({device.numa for device in machine.devices if device.numa is not None})
    masks = [sum(1 << node for node in chosen) for size in (1, 2, 3) for chosen in combinations(nodes, size)]
    fitting = [mask for mask in masks if isinstance(allocator.allocate(asked, (), mask), DeviceAllocation)]
    found = device_hints(allocator, asked)
    assert isinstance(found, CannotAllocate) == (not fitting)
    if not isinstance(found, CannotAllocate):
        size = min(mask.bit_count() for mask in fitting)
        assert found["gpu"] == found["rdma"] == tuple(Hint(mask, mask.bit_count() == size) for mask in fitting)


@pytest.mark.parametrize("required", ["Device", "PCIe", "NUMANode"])
@settings(max_examples=100, deadline=None)
@given(machine=machines(), count=st.integers(1, 4), is_first=st.booleans(), scope=st.sampled_from(["", "SamePCIe"]))
def test_every_answer_keeps_to_the_scope_of_a_hint(
    required: str, machine: DeviceInventory, count: int, is_first: bool, scope: str
) -> None:
    """Also of a type that joins the other one, of which it could get a device for each PCIe."""
    hints = {"rdma": {"requiredTopologyScope": required}}
    asked = question({GPUS: count, NICS: 1}, BOTH[::-1] if is_first else BOTH, scope=scope, hints=hints)
    found = DeviceAllocator(machine).allocate(asked)
    if isinstance(found, CannotAllocate):
        return
    minors = {grant.minor for grant in found.of("rdma")}
    given_ones = [place for place in places(machine, "rdma", ()) if place.minor in minors]
    assert required != "Device" or len(given_ones) == 1
    assert required != "PCIe" or len({place.pcie for place in given_ones}) == 1
    assert len({place.node for place in given_ones}) == 1


def questions(machine: DeviceInventory) -> st.SearchStrategy[DeviceQuestion]:
    """Requests of all kinds, with exclusive policies."""
    exclusive = st.sampled_from(["", "DeviceLevel", "PCIeLevel"])
    vfs: st.SearchStrategy[dict[str, object]] = st.sampled_from([{}, {"vfSelector": {}}])
    strategy = st.sampled_from(["", "", "RequestsAsCount"])
    nic_hints = st.builds(lambda e, v, s: {"exclusivePolicy": e, "allocateStrategy": s, **v}, exclusive, vfs, strategy)
    gpu_requests = st.sampled_from(
        [{}, {GPUS: 1}, {GPUS: 2}, {"koordinator.sh/gpu": 30}, {"koordinator.sh/gpu-memory-ratio": 60}]
    )
    return st.builds(
        lambda gpus, nics, e, hint, joint: question(
            {**gpus, **nics}, BOTH if joint else (), hints={"gpu": {"exclusivePolicy": e}, "rdma": hint}
        ),
        gpu_requests,
        st.sampled_from([{}, {NICS: 1}, {NICS: 2}, {NICS: 60}, {NICS: 100}]),
        exclusive,
        nic_hints,
        st.booleans(),
    )


@settings(max_examples=150, deadline=None)
@given(machines(), st.data())
def test_no_history_gives_an_instance_twice_or_breaks_an_exclusive_policy(
    machine: DeviceInventory, data: st.DataObject
) -> None:
    assume(machine.devices)
    allocator = DeviceAllocator(machine)
    containers: dict[int, DeviceAllocation] = {}
    for number in range(12):
        is_end = data.draw(st.booleans())
        if containers and is_end:
            containers.pop(data.draw(st.sampled_from(sorted(containers))))
            continue
        answer = allocator.allocate(data.draw(questions(machine)), grants_of(containers))
        if isinstance(answer, DeviceAllocation):
            containers[number] = answer
        check(machine, containers)


def grants_of(containers: Mapping[int, DeviceAllocation]) -> list[DeviceGrant]:
    return [grant for allocation in containers.values() for grant in allocation.grants]


@settings(max_examples=100, deadline=None)
@given(machines(), st.data())
def test_what_is_released_is_as_if_it_had_never_been_given(machine: DeviceInventory, data: st.DataObject) -> None:
    """In whatever order they leave: those who ask next are told what one is told who was never asked before."""
    assume(machine.devices)
    allocator = DeviceAllocator(machine)
    probes = [*data.draw(st.lists(questions(machine), min_size=1, max_size=3)), *EVERYTHING]
    at_first = [allocator.allocate(probe) for probe in probes]
    containers: dict[int, DeviceAllocation] = {}
    for number, asked in enumerate(data.draw(st.lists(questions(machine), min_size=1, max_size=6))):
        answer = allocator.allocate(asked, grants_of(containers))
        if isinstance(answer, DeviceAllocation):
            containers[number] = answer
    for number in data.draw(st.permutations(sorted(containers))):
        del containers[number]
        left = grants_of(containers)
        told = [allocator.allocate(probe, left[::-1]) for probe in probes]
        assert told == [DeviceAllocator(machine).allocate(probe, left) for probe in probes]
    assert [allocator.allocate(probe) for probe in probes] == at_first
    assert [len(found.grants) for found in at_first[-2:] if isinstance(found, DeviceAllocation)] == in_all(machine)


def in_all(machine: DeviceInventory) -> list[int]:
    """How many devices of each type there are, of those of which there is one."""
    counts = Counter(device.kind for device in machine.devices)
    return [counts[kind] for kind in BOTH if counts[kind]]


def check(machine: DeviceInventory, containers: dict[int, DeviceAllocation]) -> None:
    held = [(number, grant) for number, found in containers.items() for grant in found.grants]
    vfs = [grant.vf for _, grant in held if grant.vf]
    assert len(vfs) == len(set(vfs))
    pcie = {device.key: group for group in pcie_groups(machine.devices) for device in group.devices}
    for device in machine.devices:
        on_it = [(number, grant) for number, grant in held if grant.key == device.key]
        assert len({number for number, _ in on_it}) == len(on_it)
        core = sum(grant.amount for _, grant in on_it if "koordinator.sh/gpu-memory-ratio" not in dict(grant.resources))
        memory = sum(grant.amount for _, grant in on_it) if device.kind == "gpu" else 0
        assert max(core, memory) <= 100
        if any(grant.exclusive is ExclusivePolicy.DEVICE_LEVEL for _, grant in on_it):
            assert len(on_it) == 1
    for mine, other in both_ways(held):
        if mine[1].exclusive is ExclusivePolicy.PCIE_LEVEL and mine[0] != other[0] and mine[1].kind == other[1].kind:
            assert pcie[mine[1].key] is not pcie[other[1].key]


def both_ways(
    held: Sequence[tuple[int, DeviceGrant]],
) -> Iterator[tuple[tuple[int, DeviceGrant], tuple[int, DeviceGrant]]]:
    for one, other in combinations(held, 2):
        yield one, other
        yield other, one
