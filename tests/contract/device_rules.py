"""Rules about devices that every policy follows: the contract suite plays them over the registry, and over mutants."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from policies.base import Allocations, Decision, Grant, Placed, Previous, Request
from policies.builder import build_policy
from policies.device_grants import DeviceGrant
from policies.device_requests import NOTHING_ASKED, DeviceAmount, DeviceAsk
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.device_policy import inventory
from tests.fakes.machines import small_machine
from tests.property.random_requests import random_request
from tests.unit.policies.devices.build import pairs

MACHINE: Final = small_machine(
    nodes=2, isolated="7", memory_nodes=[{"memory": "2Gi", "near": {0: 17, 1: 17}, "kind": "pmem"}]
)
OPTIONS: Final = TopologyAwareOptions(MACHINE.online, CpuSet.parse("0"))
DEVICES: Final = replace(pairs(4, vfs=2), costs=inventory(*(f"example.com/dsp/dsp{n}" for n in range(3))))
ALLOCATING: Final = frozenset({"topology-aware"})
"""The policies that choose devices; the others leave what a container asks for to the kubelet."""

Rule = Callable[[Policy], None]


def with_devices(request: Request, rng: random.Random) -> Request:
    """Return a request that now and then asks for devices, of an inventory or of cost files, or has some already."""
    kind, count = rng.choice(("nvidia.com/gpu", "koordinator.sh/rdma", "dsp", "given", "", "")), rng.randint(1, 2)
    if kind == "given":
        return replace(request, given=(DeviceGrant("gpu", rng.randrange(4), 100, is_given=True),))
    if kind == "dsp":
        ask = DeviceAsk((DeviceAmount("example.com/dsp", count),))
    elif kind:
        ask = DeviceAsk(requests=((kind, count if kind.endswith("gpu") else 50 * count),))
    else:
        ask = NOTHING_ASKED
    return replace(request, preferences=replace(request.preferences, devices=ask))


def asked_of(request: Request) -> dict[str, int]:
    """Return how many devices of each type the request asks for."""
    types = {"nvidia.com/gpu": "gpu", "koordinator.sh/rdma": "rdma"}  # up to 100 units of rdma are one NIC
    asked = request.preferences.devices
    found = {types[name]: amount if types[name] == "gpu" else 1 for name, amount in asked.requests}
    return found | {amount.kind: amount.count for amount in asked.counts}


def requests(seed: int, count: int = 40, machine: Machine = MACHINE) -> Iterator[Request]:
    """Requests of every kind, also for devices."""
    rng, devices = random.Random(seed), random.Random(seed)
    return (with_devices(random_request(machine, rng, number), devices) for number in range(count))


def after(held: Allocations, decision: Decision) -> Allocations:
    """Return the grants after a decision."""
    return held.with_grants(*decision.moved, decision.grant) if isinstance(decision, Placed) else held


def some_grants(policy: Policy, seed: int) -> Allocations:
    """Return the grants of containers that came one after the other."""
    held = Allocations()
    for request in requests(seed):
        held = after(held, policy.decide(held, request))
    assert held.grants  # else rules over them hold of nothing
    return held


def keys_of(grant: Grant | None) -> tuple[DeviceGrant, ...]:
    """Return the devices of a grant, sorted."""
    return tuple(sorted(grant.devices, key=lambda each: (each.kind, str(each.minor), each.vf))) if grant else ()


def has_what_it_asks_for(policy: Policy) -> None:
    """A policy that allocates places a container with all devices that it asks for, or refuses it."""
    held, asked = Allocations(), 0
    for request in requests(21, 80):
        decision = policy.decide(held, request)
        if request.preferences.devices and isinstance(decision, Placed) and policy.name in ALLOCATING:
            asked += 1
            chosen = [each for each in decision.grant.devices if not each.is_given]
            assert Counter(each.kind for each in chosen) == asked_of(request), request
        held = after(held, decision)
    assert asked > 3 or policy.name not in ALLOCATING


def has_what_others_chose(policy: Policy) -> None:
    """A container has the devices that the kubelet gave it, whoever holds them."""
    held, seen = Allocations(), 0
    for request in requests(22, 80):
        decision = policy.decide(held, request)
        if request.given and isinstance(decision, Placed):
            seen += 1
            assert set(request.given) <= set(decision.grant.devices), request
        held = after(held, decision)
    assert seen > 3


def keeps_its_devices_when_it_is_resized(policy: Policy) -> None:
    """A running container gets neither more devices nor others, nor loses one."""
    owners = [grant for grant in some_grants(policy, 23).grants if grant.devices]
    assert owners
    for grant in owners:
        previous = Previous(grant.pool, grant.owned, devices=grant.devices, is_running=True)
        alone = Allocations().with_grants(grant)  # a choice among free devices would begin with the first
        decision = policy.decide(alone, replace(grant.request, previous=previous))
        assert not isinstance(decision, Placed) or keys_of(decision.grant) == keys_of(grant)


def keeps_all_devices_when_grants_are_reinstated(policy: Policy) -> None:
    """After a restart, or a change of the policy, every container has the devices that it runs with."""
    foreign = some_grants(build_policy("topology-aware", MACHINE, OPTIONS, DEVICES), 24)
    for held in (some_grants(policy, 24), foreign):
        found = policy.reinstate(held).allocations
        assert any(grant.devices for grant in held.grants)
        assert {g.container: keys_of(g) for g in held.grants} == {g.container: keys_of(g) for g in found.grants}


def grants_no_device_twice(policy: Policy) -> None:
    """Of each device no more is granted than there is, beside what others chose."""
    total: dict[tuple[str, int | str], int] = {}
    for grant in some_grants(policy, 25).grants:
        for each in grant.devices:
            if not each.is_given and each.kind in ("gpu", "example.com/dsp"):
                total[each.key] = total.get(each.key, 0) + each.amount
    assert all(amount <= 100 for amount in total.values()), total
    assert total or policy.name not in ALLOCATING


RULES: Final[tuple[Rule, ...]] = (
    has_what_it_asks_for,
    has_what_others_chose,
    keeps_its_devices_when_it_is_resized,
    keeps_all_devices_when_grants_are_reinstated,
    grants_no_device_twice,
)
