"""A node whose CPUs and devices others have, pods that say something there, and what must hold whatever they say.

On 2 packages of 4 cores with 2 threads each, the first core reserved, an owner has CPUs alone, and every device of cost
files and inventory; sharers have been promised the rest of the CPUs. With ``room_mcpu`` so much is left, and devices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.rules import AnnotationRules, Restriction
from cri_proxy.cri.devices.plugin_devices import given_devices
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodAmounts, PodSpec, create_request, guaranteed
from cri_proxy.intercept.reader import LocalitiesOf, Reader
from policies.base import Allocations, CpuKind, Grant, Placed, Request
from policies.builder import build_policy
from policies.device_grants import by_cost, by_place
from policies.policy import Policy
from policies.preferences import Threads
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.device_policy import inventory, two_pairs
from tests.fakes.site import no_hints

DOMAINS = AnnotationRules().domains
NODE = KubeletNode(4 << 30, log_directory="")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
SHARED_MCPU = 11_000  # of 16 CPUs, without the reserved core and what the owner has
EVERY_DEVICE = {
    "cri-proxy.io/device-request": "example.com/gpu=2,example.com/nic=1",
    "cri-proxy.io/device-resources": "nvidia.com/gpu=2,koordinator.sh/rdma=200",
}
SOME_DEVICES = {
    "cri-proxy.io/device-request": "example.com/gpu=1",
    "cri-proxy.io/device-resources": "nvidia.com/gpu=1,koordinator.sh/rdma=100",
}


def full_machine() -> Machine:
    return describe({"packages": 2, "cores": 4, "threads": 2, "memory": "4Gi"})


def _policy() -> Policy:
    machine = full_machine()
    devices = inventory("example.com/gpu/0", "example.com/gpu/1", "example.com/nic/0")
    options = TopologyAwareOptions(machine.online, machine.cores[0].cpus)
    return build_policy("topology-aware", machine, options, replace(two_pairs(), costs=devices))


POLICY = _policy()


def shapes(annotations: Mapping[str, str]) -> Iterator[PodSpec]:
    """Pods that ask for nothing, for parts of CPUs and for whole ones, in one container or several, or as a whole."""
    said = tuple(sorted(annotations.items()))
    for name, containers in {
        "nothing": (ContainerSpec("c0"),),
        "small": (ContainerSpec("c0", 10),),
        "part": (ContainerSpec("c0", 1500),),
        "whole": (ContainerSpec("c0", 2000),),
        "limited": (ContainerSpec("c0", 1000, 16000),),
        "guaranteed": (guaranteed("c0", 1000),),
        "parts": (guaranteed("c0", 1500), guaranteed("c1", 500)),
        "wholes": (guaranteed("c0", 2000), guaranteed("c1", 1000)),
        "part-behind": (ContainerSpec("c0", 1000), ContainerSpec("c1", 2500)),
        "whole-behind": (ContainerSpec("c0", 500), ContainerSpec("c1", 3000)),
    }.items():
        yield PodSpec(name, containers, annotations=said)
    for request_mcpu, limit_mcpu in ((1000, 6000), (2000, 2000)):
        amounts = PodAmounts(request_mcpu, limit_mcpu, 64 << 20, 64 << 20)
        both = (ContainerSpec("c0"), ContainerSpec("c1"))
        yield PodSpec(f"of-{request_mcpu}", both, annotations=said, amounts=amounts)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Reads what pods ask for, as the daemon does. ``restricted`` is the operator's option of that name."""

    restricted: tuple[Restriction, ...] = ()
    hints_of: LocalitiesOf = no_hints

    async def of(self, spec: PodSpec, variables: Mapping[str, str] = NO_VARIABLES) -> tuple[Request, ...]:
        """The requests of all containers of a pod, without what they were read from: that decides nothing."""
        return tuple([await self.of_container(spec, container, variables) for container in spec.containers])

    async def of_container(
        self, spec: PodSpec, container: ContainerSpec, variables: Mapping[str, str] = NO_VARIABLES
    ) -> Request:
        """The request of one container."""
        message = create_request(spec, container, spec.name, node=NODE)
        for name, value in variables.items():
            message.config.envs.add(key=name, value=value.encode())
        reader = Reader(NODE.memory_capacity_bytes, Config(restricted_annotations=self.restricted), self.hints_of)
        read = await reader.read_create(message, message.sandbox_config)
        return replace(read.request, given=given_devices(message.config, POLICY.known)[0], origins=())


@dataclass
class FullNode:
    """The node: what containers hold by the policy's decisions."""

    room_mcpu: int = 0
    held: Allocations = field(default_factory=Allocations)

    async def fill(self) -> None:
        """Let the others come."""
        devices = SOME_DEVICES if self.room_mcpu else EVERY_DEVICE
        owner = PodSpec("owner", (guaranteed("c", 3000),), "kube-public", tuple(devices.items()))
        each = (SHARED_MCPU - self.room_mcpu) // 2
        for spec in (owner, *(PodSpec(name, (ContainerSpec("c", each),)) for name in ("s1", "s2"))):
            assert [grant.is_overcommitted for grant in self.run(*await Wishes().of(spec))] == [False]
        held = [(len(by_cost(g.devices)), len(by_place(g.devices))) for g in self.held.grants if g.devices]
        assert held == [(1, 2) if self.room_mcpu else (3, 4)]

    def run(self, *requests: Request) -> tuple[Grant, ...]:
        """Create these containers; return what they hold. One that is refused holds nothing."""
        for request in requests:
            decision = POLICY.decide(self.held, request)
            if not isinstance(decision, Placed):  # onShortage: admit
                decision = POLICY.overcommitted(self.held, request, decision)
            if isinstance(decision, Placed):
                self.held = self.held.with_grants(*decision.moved, decision.grant)
        return tuple(grant for grant in map(self.held.get, (request.container for request in requests)) if grant)

    def play(self, spec: PodSpec, *requests: Request, takes: bool = False) -> tuple[Grant, ...]:
        """Run this pod, check what it has, and remove it; return that.

        ``takes``: it may have what the table of annotations says that it takes.
        """
        before = self.held
        grants = self.run(*requests)
        self.check(before, spec, takes=takes)
        self.held = before
        return grants

    def check(self, before: Allocations, spec: PodSpec, *, takes: bool = False) -> None:
        """Nobody else has lost a CPU or device; of the shared CPUs are gone those that this pod pays for."""
        for was in before.grants:
            now = self.held.get(was.container)
            assert now is not None and (now.owned, now.devices) == (was.owned, was.devices), was.container
        theirs = [grant for grant in self.held.grants if grant.container.pod_uid == spec.pod_uid]
        owned = CpuSet.of_masks(grant.owned.mask for grant in theirs)
        assert _shared(before) - _shared(self.held) <= owned
        factor = 2 if takes and any(_wants_cores(grant) for grant in theirs) else 1
        assert 1000 * len(owned) + _booked_mcpu(theirs) <= factor * spec.cpu_request_mcpu, spec.name
        self._check_pinnings(takes=takes)
        if not takes:
            assert not any(grant.devices or grant.kind is CpuKind.RESERVED for grant in theirs)

    def _check_pinnings(self, *, takes: bool) -> None:
        """Nobody runs on CPUs that a container of another pod owns."""
        pinnings = POLICY.pinnings(self.held)
        for grant in self.held.grants:
            cpus = pinnings[grant.container].cpus
            if cpus is None:
                assert takes, f"{grant.container} is not pinned"
                continue
            others = (other for other in self.held.grants if other.container.pod_uid != grant.container.pod_uid)
            assert all(cpus.isdisjoint(other.owned) for other in others), grant.container


def _shared(held: Allocations) -> CpuSet:
    return POLICY.pools(held)[0].shared


def _wants_cores(grant: Grant) -> bool:
    return grant.request.preferences.threads in (Threads.OWN_CORE, Threads.HIDE)


def _booked_mcpu(grants: Sequence[Grant]) -> int:
    """What is booked of the shared and the reserved CPUs, once for the containers that share a grant."""
    booked = {}
    for grant in grants:
        key = (grant.container.pod_uid, grant.request.claim) if grant.shares_cpus else grant.container
        booked[key] = max(grant.shared_mcpu, grant.reserved_mcpu)  # both where the reserved ones had no room
    return sum(booked.values())
