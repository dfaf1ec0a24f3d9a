"""Random histories of containers with devices of the inventory, on several machines.

No device is given beyond what it has and no VF twice, exclusive policies hold in every state, strict nodes are kept,
nothing that runs loses or gets a device, and what is released is free again.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, ContainerKey, Grant, Placed, QosClass, Rejected, Request
from policies.builder import build_policy
from policies.device_grants import DeviceGrant, DeviceKey
from policies.device_requests import DeviceAsk
from policies.devices import ALLOCATE_HINT, DeviceInventory
from policies.pod_share import PodTotals
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.random_devices import random_ask, random_devices
from tests.property.random_requests import random_request

STEPS = 40
SEEDS = range(100)
SHAPES = (
    {"packages": 1, "nodes": 1, "cores": 3, "threads": 2},
    {"packages": 2, "nodes": 1, "cores": 3, "threads": 2},
    {"packages": 2, "nodes": 2, "cores": 2, "threads": 2},
    {"packages": 9, "cores": 2, "threads": 1},  # more nodes than sets of them are listed for
)


def devices_of_other_pods(grant: Grant, others: Iterable[Grant]) -> list[DeviceGrant]:
    pod = grant.container.pod_uid
    return [device for other in others if other.container.pod_uid != pod for device in other.devices]


class World:
    """A policy with what is held; ``had`` is what each container got when it was created."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.machine = describe({**self.rng.choice(SHAPES), "memory": "8Gi"})
        self.devices = random_devices(self.rng, self.machine)
        policies, scopes = tuple(TopologyPolicy), tuple(TopologyScope)
        self.rules = TopologyOptions(self.rng.choice(policies), self.rng.choice(scopes))
        self.policy = self.policy_with(self.devices)
        self.held = Allocations()
        self.had: dict[ContainerKey, tuple[DeviceGrant, ...]] = {}
        self.counts: Counter[str] = Counter()

    def policy_with(self, devices: DeviceInventory, name: str = "topology-aware") -> Policy:
        options = TopologyAwareOptions(self.machine.online, CpuSet.of([0]), topology=self.rules)
        return build_policy(name, self.machine, options, devices)

    def step(self, number: int) -> None:
        grants = self.held.grants
        if not grants or self.rng.random() < 0.55:
            self.create(self.request(number))
        else:
            act = self.rng.choice((self.release, self.release, self.resize, self.again, self.restart, self.rest))
            act(self.rng.choice(grants))
        self.check()

    def request(self, number: int) -> Request:
        wanted = replace(random_request(self.machine, self.rng, number), localities=(), affinities=())
        if self.rng.random() < 0.3:  # of a pod whose containers share its CPUs
            pod = f"shared-{self.rng.randrange(2)}"
            totals = PodTotals(2000, 2000, None, shares_cpu=True)
            wanted = replace(
                wanted, container=ContainerKey(pod, wanted.container.name), cpu_request_mcpu=2000, cpu_limit_mcpu=2000,
                pod=replace(wanted.pod, uid=pod, name=pod, qos=QosClass.GUARANTEED), pod_totals=totals,
                memory_request_bytes=0, memory_limit_bytes=None, preferences=type(wanted.preferences)(),
            )  # fmt: skip
        kind = self.rng.random()
        if kind < 0.75:
            wanted = replace(wanted, preferences=replace(wanted.preferences, devices=random_ask(self.rng)))
        if kind > 0.65:
            device = self.rng.choice(self.devices.devices)
            amount = self.rng.choice((1, 50, 100))
            wanted = replace(wanted, given=(DeviceGrant(device.kind, device.minor, amount, is_given=True),))
        return wanted

    def create(self, wanted: Request) -> None:
        decision = self.policy.decide(self.held, wanted)
        assert repr(decision) == repr(self.policy_with(self.policy.devices).decide(self.held, wanted))
        if isinstance(decision, Rejected):
            self.counts[decision.reason.code] += 1
            return
        self.counts["placed"] += 1
        self.counts["given"] += bool(wanted.given)
        self.counts["shared"] += decision.grant.share is not None
        self.check_new(decision.grant, wanted)
        self.take(decision)

    def check_new(self, grant: Grant, wanted: Request) -> None:
        """What a new grant has beside all others: its whole request, healthy devices, on its strict nodes."""
        chosen = [device for device in grant.devices if not device.is_given]
        assert {d.key for d in grant.devices if d.is_given} == {d.key for d in wanted.given}
        assert bool(chosen) == bool(wanted.preferences.devices)
        by_key = {device.key: device for device in self.policy.devices.devices}
        assert all(by_key[device.key].is_healthy for device in chosen)
        alignment, nodes = grant.request.alignment, {node.id for node in self.machine.nodes}
        for device in chosen if alignment is not None and alignment.is_strict else ():
            assert by_key[device.key].numa not in nodes - set(alignment.nodes if alignment else ()), grant
        others = [other for other in self.held.grants if other.container != grant.container]
        held = [d for other in others for d in other.devices]
        of_others = devices_of_other_pods(grant, others)
        for device in chosen:
            self.check_beside(device, [*held, *(d for d in grant.devices if d.is_given)], of_others)

    def check_beside(self, device: DeviceGrant, all_others: list[DeviceGrant], others: list[DeviceGrant]) -> None:
        """A device that was chosen fits beside all that is held, whoever chose that; ``others`` is of other pods."""
        same = [other for other in all_others if other.key == device.key]
        assert device.amount + sum(other.amount for other in same) <= 100, device
        assert not device.vf or device.vf not in {other.vf for other in same}
        assert not same or not (device.exclusive == "DeviceLevel" or any(o.exclusive == "DeviceLevel" for o in same))
        near = [other for other in others if self.pcie(other) == self.pcie(device) and other.kind == device.kind]
        assert not near or not (device.exclusive == "PCIeLevel" or any(o.exclusive == "PCIeLevel" for o in near))

    def pcie(self, device: DeviceGrant) -> str | None:
        return next(found.pcie for found in self.devices.devices if found.key == device.key)

    def take(self, decision: Placed) -> None:
        self.held = self.held.with_grants(*decision.moved, decision.grant)
        self.had[decision.grant.container] = decision.grant.devices

    def release(self, grant: Grant) -> None:
        self.held = self.held.without(grant.container)
        del self.had[grant.container]
        # The kubelet creates some again: they have the same devices, which nobody took meanwhile.
        if self.rng.random() < 0.5 or grant.request.pod_totals is not None or grant.share is not None:
            return
        was = tuple(device for device in grant.devices if not device.is_given)
        wanted = replace(grant.request, previous=grant.as_previous, localities=(), alignment=None)
        decision = self.policy.decide(self.held, wanted)
        if isinstance(decision, Placed):
            self.counts["again"] += bool(was)
            self.take(decision)

    def again(self, grant: Grant) -> None:
        """Another attempt while the first one's grant is held."""
        totals = PodTotals(2000, 2000, None, shares_cpu=True) if grant.share is not None else None
        wanted = replace(grant.request, previous=grant.as_previous, localities=(), alignment=None, pod_totals=totals)
        decision = self.policy.decide(self.held, wanted)
        if isinstance(decision, Placed):
            assert self.sound(grant) is False or set(decision.grant.devices) == set(grant.devices), grant
            self.take(decision)

    def sound(self, grant: Grant) -> bool:
        """Whether its devices serve again for certain: healthy, and none given to anybody beside them."""
        chosen = [device for device in grant.devices if not device.is_given]
        given = [(d.kind, self.pcie(d)) for other in self.held.grants for d in other.devices if d.is_given]
        by_key = {device.key: device for device in self.policy.devices.devices}
        is_free = all(by_key[d.key].is_healthy and (d.kind, self.pcie(d)) not in given for d in chosen)
        return is_free and self.rules.policy is TopologyPolicy.NONE

    def resize(self, grant: Grant) -> None:
        mcpu = self.rng.choice((0, 500, 1000, 2000))
        totals = PodTotals(mcpu, mcpu, None, shares_cpu=True) if grant.share is not None else None
        wanted = replace(grant.request, cpu_request_mcpu=mcpu, pod_totals=totals, previous=grant.as_running)
        decision = self.policy.decide(self.held, wanted)
        if isinstance(decision, Placed):
            self.held = self.held.with_grants(*decision.moved, decision.grant)

    def restart(self, _: Grant) -> None:
        """Another inventory, or the policy none and back: nothing that runs gets other devices."""
        some = tuple(replace(device, is_healthy=self.rng.random() < 0.8) for device in self.devices.devices)
        self.policy = self.policy_with(replace(self.devices, devices=some))
        if self.rng.random() < 0.3:
            none = self.policy_with(self.devices, "none")
            self.held = none.reinstate(self.held).allocations
            self.check()
        self.held = self.policy.reinstate(self.held).allocations

    def rest(self, grant: Grant) -> None:
        """What the daemon does between calls."""
        for found in (self.policy.narrowed(self.held), self.policy.better_places(self.held).grants):
            self.held = self.held.with_grants(*found)
        self.held = self.held.with_grants(*self.policy.after_cold_start(self.held, grant.container))

    def check(self) -> None:
        assert {grant.container: grant.devices for grant in self.held.grants} == self.had
        chosen = [d for grant in self.held.grants for d in grant.devices if not d.is_given]
        units: Counter[DeviceKey] = Counter()
        for device in chosen:
            units[device.key] += device.amount
        assert all(amount <= 100 for amount in units.values()), units
        vfs = Counter(device.vf for device in chosen if device.vf)
        assert all(count == 1 for count in vfs.values()), vfs
        for grant in self.held.grants:
            others = [other for other in self.held.grants if other.container != grant.container]
            chosen_too = [d for other in others for d in other.devices if not d.is_given]
            of_pods = [d for d in devices_of_other_pods(grant, others) if not d.is_given]
            for device in grant.devices:
                if not device.is_given:
                    self.check_beside(device, chosen_too, of_pods)


@pytest.mark.parametrize("seed", SEEDS)
def test_devices_are_given_once_and_stay_where_they_are(seed: int) -> None:
    world = World(seed)
    for number in range(STEPS):
        world.step(number)
    assert world.counts["placed"]
    for grant in world.held.grants:
        world.held = world.held.without(grant.container)
    empty = World(seed).policy
    for kind in ("gpu", "rdma"):
        every = DeviceAsk(
            (),
            ((f"koordinator.sh/{kind}", 100),),
            ((ALLOCATE_HINT, json.dumps({kind: {"allocateStrategy": "ApplyForAll"}})),),
        )
        asked = replace(world.request(999), given=(), pod_totals=None)
        asked = replace(asked, preferences=type(asked.preferences)(preserve_cpu=True, devices=every))
        found = empty.decide(world.held, asked)
        count = len(world.devices.of(kind))
        assert isinstance(found, Placed) == bool(count)
        assert isinstance(found, Rejected) or len(found.grant.devices) == count


def test_all_kinds_of_events_are_met_in_these_histories() -> None:
    """Else the rules above could hold for want of cases."""
    counts: Counter[str] = Counter()
    for seed in range(30):
        world = World(seed)
        for number in range(STEPS):
            world.step(number)
        counts += world.counts
    wanted = ("placed", "given", "shared", "again", "allocation-refused", "strict-topology")
    assert all(counts[code] > 10 for code in wanted), counts
