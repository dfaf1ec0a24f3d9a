"""Random lives beside accelerators under every ``DeviceCPUs``: what is kept is kept, and nothing that runs moves."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.base import Allocations, DeviceLocality, Grant, Placed, QosClass, Rejected, Request
from policies.topology_aware import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import small_machine
from tests.unit.policies.build import options, request
from tests.unit.policies.memory.build import FEW

STEPS = 25


def machine_of(rng: random.Random) -> Machine:
    """Two packages with a GPU or two on some of their nodes."""
    nodes = rng.choice((1, 2))
    homes = [node for node in range(2 * nodes) for _ in range(rng.choice((0, 0, 1, 2)))]
    pci = [{"address": f"0000:{n:02x}:00.0", "class": 0x030200, "node": home} for n, home in enumerate(homes, 0x10)]
    return small_machine(nodes=nodes, cores=rng.choice((2, 3)), threads=2, pci=pci)


def free_gpus(machine: Machine, held: Allocations) -> list[tuple[int, str]]:
    """The node's CPUs and the address of each GPU that no container has, read off the machine alone."""
    taken = {address for grant in held.grants for hint in grant.request.localities for address in hint.devices}
    nodes = {node.id: node.cpus.mask for node in machine.nodes}
    return [(nodes[gpu.node], gpu.address) for gpu in machine.devices if gpu.node in nodes and gpu.address not in taken]


def some_request(rng: random.Random, machine: Machine, held: Allocations, number: int) -> Request:
    qos = rng.choice((QosClass.GUARANTEED, QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT))
    mcpu = {QosClass.GUARANTEED: 1000 * rng.randrange(1, 6), QosClass.BURSTABLE: 300}.get(qos, 0)
    free = free_gpus(machine, held)
    if not free or rng.random() < 0.6:
        return request(f"p{number:02}/c", mcpu, qos)
    cpus, address = rng.choice(free)
    node = next(node.id for node in machine.nodes if node.cpus.mask == cpus)
    return request(
        f"p{number:02}/c",
        mcpu,
        qos,
        localities=(DeviceLocality(address, CpuSet(), NodeSet.of([node]), devices=(address,)),),
    )


def check_owner(machine: Machine, kept_each: int, held: Allocations, grant: Grant, before: CpuSet) -> None:
    """An owner without a device leaves each free GPU its CPUs, as far as there were any."""
    owned = sum(other.owned.mask for other in held.grants if other.container != grant.container)
    for cpus in {cpus for cpus, _ in free_gpus(machine, held)}:
        wanted = kept_each * sum(here == cpus for here, _ in free_gpus(machine, held))
        free = cpus & ~owned & ~before.mask
        taken = (free & grant.owned.mask).bit_count()
        assert not taken or free.bit_count() - taken >= wanted


@FEW
@given(st.integers(0, 1 << 32))
def test_kept_cpus_are_never_owned_without_devices_and_nothing_else_changes(seed: int) -> None:
    rng = random.Random(seed)
    machine, kept_each = machine_of(rng), rng.randrange(1, 4)
    policy, held = TopologyAware(machine, options(machine, device_cpus=f"keep={kept_each}")), Allocations()
    plain = TopologyAware(machine, options(machine, device_cpus="avoid"))
    for number in range(STEPS):
        if held.grants and rng.random() < 0.3:
            held = held.without(rng.choice(held.grants).container)
        wanted, before = some_request(rng, machine, held, number), CpuSet()
        if held.grants and rng.random() < 0.3:  # a resize
            own = rng.choice(held.grants)
            mcpu = 1000 * rng.randrange(1, 6) if own.request.pod.qos is QosClass.GUARANTEED else 300
            previous = replace(own.as_previous, is_running=True) if own.as_previous is not None else None
            wanted, before = replace(own.request, cpu_request_mcpu=mcpu, previous=previous), own.owned
        decision = policy.decide(held, wanted)
        if isinstance(decision, Rejected):
            # Sharers are refused for want of CPU time alone.
            assert wanted.pod.qos is QosClass.GUARANTEED or isinstance(plain.decide(held, wanted), Rejected)
            continue
        assert isinstance(decision, Placed)
        grant, others = decision.grant, held.without(wanted.container)
        running = {other.container: other.owned for other in others.grants}
        assert all(moved.owned == running[moved.container] for moved in decision.moved)
        assert not any(grant.owned & owned for owned in running.values())
        if grant.owned and not wanted.localities:
            check_owner(machine, kept_each, others, grant, before)
            assert grant.owned <= before or len(grant.owned) > len(before)  # a shrink never moves
        held = held.with_grants(*decision.moved, grant)
        # Changed options move nothing that runs.
        for other in (plain, policy):
            again = other.reinstate(held).allocations
            assert [(g.container, g.owned, g.pool) for g in again.grants] == [
                (g.container, g.owned, g.pool) for g in held.grants
            ]
    for grant in held.grants:
        held = held.without(grant.container)
    assert policy.pools(held) == policy.pools(Allocations())
