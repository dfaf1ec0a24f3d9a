"""Random lives of a node, looked at after every runtime call and checked when all is settled.

A kubelet, the interceptor, the coordinator and the embedded runtime with its kernel; what happens is everything that
happens to a node: pods come and go, exit, restart and are resized; the proxy and the runtime restart; updates are
refused or end without an answer; options and cost files change, CPUs and memory come and go; somebody rewrites a
cpuset. Some pods ask for devices; half of the nodes merge topology hints.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.events import UPDATE_FAILED
from cri_proxy.node.reconfigure import reconfigure
from cri_proxy.state.rows import Row
from policies.alignment import TopologyOptions
from policies.builder import build_policy
from policies.devices import DeviceInventory
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.device_checks import DeviceCheck, told
from tests.fakes.device_policy import use_costs
from tests.fakes.machines import unplugged
from tests.fakes.node_checks import (
    MoveCheck,
    check_moment,
    check_settled,
    pinned,
    running,
    sent_again,
    waiting_for_starts,
)
from tests.fakes.random_devices import asking, random_inventory, random_topology
from tests.fakes.random_pods import random_pod
from tests.fakes.site import Site
from tests.fakes.store import MemoryStore
from tests.property.policy_history import random_available, random_gone, random_options

UNKNOWN, DEADLINE_EXCEEDED = 2, 4
UPDATE = "UpdateContainerResources"
ASKING = 0.5  # of the pods ask for devices
MOST_MERGED = 8  # NUMA nodes, as in the kubelet: on 16 of them a decision takes a tenth of a second
# Drift that comes back so often is left to whoever makes it: a life puts each container back less often.
TAMPERS = 2


@dataclass
class LivePod:
    """A pod that the kubelet runs: its sandbox, and the current id and attempt of each container."""

    spec: PodSpec
    sandbox_id: str
    ids: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)


class World(Site):
    """One machine's life. Every step leaves the node settled and checked."""

    def __init__(self, machine: Machine, options: TopologyAwareOptions, seed: int) -> None:
        # Where a container must not start before others have left for good, their updates may fail for good.
        rules = Config(
            on_policy_error="reject" if seed % 3 else "passthrough",
            on_shortage="refuse"
            if seed % 2
            else "admit",  # a container that is admitted without room hides what was lost
        )
        self.whole = machine
        self.random = Random(seed)
        self.options = options = replace(options, topology=self._topology(machine))
        self.inventory = random_inventory(self.random, machine)
        super().__init__(self._policy(machine, options), rules=rules, modern=seed % 2 == 0)
        self.pods: dict[str, LivePod] = {}
        self.left: list[str] = []  # created, and replaced by the next attempt
        self.refused = 0
        self.steps = 0
        self.doing = "start"
        self._names = 0
        self._allowed = options.available & machine.online
        self._moves = MoveCheck(self.runtime)
        self.devices = DeviceCheck(self.runtime)
        self._tampered: dict[str, int] = {}

    def check(self) -> None:
        """What must hold at this very moment, by what the kernel lets each running container use."""
        self.check_pinned(pinned(self.runtime, self.node.context.ledger))
        self._moves.look()
        self.devices.look(self.node.context.ledger)

    def check_pinned(self, there: Mapping[str, tuple[Row, CpuSet]]) -> None:
        """What must hold of where these are, and of those who have CPUs alone."""
        if self.options.pin_cpu:
            check_moment(there, self.node.context.ledger, self._allowed)

    def listed(self) -> frozenset[str]:
        """The devices of the cost files as they are now."""
        return frozenset(name for names in self.inventory.devices.values() for name in names)

    async def step(self) -> None:
        """One random thing that happens to a node."""
        moves, times = zip(*self._chances(), strict=True)
        move = self.random.choices(moves, times)[0]
        self.doing = move.__name__
        await move()
        await self.node.settle()
        self.check()
        self.check_settled()
        self.steps += 1

    def check_settled(self) -> None:
        """What must hold where nothing is under way."""
        check_settled(self.runtime, self.node.context.ledger, self.options)
        self.devices.look_settled(self.node.context.ledger)
        assert not self.log.errors, self.log.errors

    def _chances(self) -> list[tuple[Callable[[], Awaitable[None]], int]]:
        often = [(self.run_pod, 12), (self.remove_pod, 9), (self.restart_container, 6), (self.exit_container, 6)]
        changes = [(self.resize, 5), (self.burst, 3), (self.reconfigure, 3), (self.hotplug, 2), (self.change_costs, 3)]
        restarts = [
            (self.restart_proxy, 2),
            (self.restart_runtime, 1),
            (self.restart_both, 1),
            (self.lose_the_store, 1),
            (self.slow_check, 2),
        ]
        faults = [(self.fail_a_create, 2), (self.refuse_updates, 2), (self.lose_answers, 2), (self.tamper, 2)]
        starts = [(self.never_start, 3), (self.start_after_all, 2)]
        return [*often, *changes, *restarts, *faults, *starts]

    # What the kubelet does.

    async def run_pod(self) -> None:
        self._names += 1
        spec = self._perhaps_asking(random_pod(self.random, f"p{self._names}"))
        try:
            sandbox_id = await self.kubelet.run_sandbox(spec)
        except CallFailed:  # its hints are merged as a whole
            self.refused += 1
            return
        self.pods[spec.name] = pod = LivePod(spec, sandbox_id)
        for container in spec.containers:
            await self._create_and_start(pod, container)

    async def burst(self) -> None:
        """Several pods come and one goes at the same time, and now and then cost files change."""
        leaving = self.pods.pop(self.random.choice(sorted(self.pods))) if self.pods else None
        removal = self.kubelet.remove_pod(leaving.sandbox_id if leaving is not None else "none")
        changed = [self.change_costs()] if self.random.random() < 0.3 else []
        await asyncio.gather(self.run_pod(), self.run_pod(), removal, *changed, self.run_pod())

    async def remove_pod(self) -> None:
        if self.pods:
            pod = self.pods.pop(self.random.choice(sorted(self.pods)))
            await self.kubelet.remove_pod(pod.sandbox_id)

    async def restart_container(self) -> None:
        """The process ends, the kubelet makes the next attempt and collects the old one afterwards."""
        pod, name = self._pick()
        if pod is not None:
            old = pod.ids[name]
            self.runtime.exit(old)
            await self._create_and_start(pod, next(c for c in pod.spec.containers if c.name == name))
            await self.kubelet.remove(old)

    async def exit_container(self) -> None:
        pod, name = self._pick()
        if pod is not None:
            self.runtime.exit(pod.ids.pop(name))
            await self.node.resync.check_all("test")

    async def resize(self) -> None:
        pod, name = self._pick()
        if pod is None:
            return
        spec = next(c for c in pod.spec.containers if c.name == name)
        mcpu = self.random.choice([500, 1000, 2000, 3000])
        changed = guaranteed(name, mcpu) if spec.cpu_limit_mcpu else ContainerSpec(name, cpu_request_mcpu=mcpu)
        try:
            await self.kubelet.update(pod.ids[name], pods.resources(pod.spec, changed, self.kubelet.node))
        except CallFailed:
            self.refused += 1

    # What happens to the processes.

    async def restart_proxy(self) -> None:
        """A new process on the same store: not one value changes, but of what waited for a start that it forgets."""
        await self.node.settle()
        before, open_before = self.recorded(), sent_again(self.store.load().rows)
        waiting = waiting_for_starts(self.node.context.ledger)
        await self.open(self.check)
        assert self.recorded() == before or waiting, "a restart changed a pinning"
        assert self.node.effects.sent <= open_before or waiting, "a restart sent updates"

    async def restart_runtime(self) -> None:
        self.runtime.restart()
        await self.node.resync.check_all("the runtime is back")

    async def restart_both(self) -> None:
        self.runtime.restart()
        await self.restart_proxy()

    async def lose_the_store(self) -> None:
        """A new process that knows nothing: it takes up what the runtime has, and the annotations that we left."""
        self.store = MemoryStore()
        self.devices.forget_pods()
        await self.open(self.check)

    async def slow_check(self) -> None:
        """What the daemon does every now and then; time passes for cold starts."""
        await self.clock.sleep(self.random.choice((1.0, 100.0)))
        await self.node.resync.check_all("slow check")
        await self.node.slow_check()

    # What goes wrong.

    async def fail_a_create(self) -> None:
        self.runtime.faults.fail_next("CreateContainer", UNKNOWN, "no such thing today")
        await self.run_pod()

    async def never_start(self) -> None:
        """The start of an attempt ends with the kubelet or the proxy; another one runs, and may end."""
        pod, name = self._pick()
        if pod is None:
            return
        container = next(c for c in pod.spec.containers if c.name == name)
        self.runtime.exit(pod.ids[name])
        left = await self._create(pod, container)
        if left is not None:
            await self.random.choice([self.restart_proxy, self.slow_check, self.node.settle])()
            await self._create_and_start(pod, container)
            self.left.append(left)
        if name in pod.ids and self.random.random() < 0.7:
            self.runtime.exit(pod.ids.pop(name))
        await self.node.resync.check_all("test")

    async def start_after_all(self) -> None:
        """Somebody starts an attempt that its kubelet has left created: it gets a place, or does not start."""
        there = [(pod, i) for pod in self.pods.values() for i in self.left if self._is_created(pod, i)]
        if not there:
            return
        pod, late = self.random.choice(there)
        try:
            await self.kubelet.start(late)
        except CallFailed:
            self.refused += 1
            await self.node.resync.check_all("test")
        else:
            pod.ids[self.runtime.node.containers[late].config.metadata.name] = late

    def _is_created(self, pod: LivePod, container_id: str) -> bool:
        found = self.runtime.node.containers.get(container_id)
        is_there = found is not None and found.state_name == "CONTAINER_CREATED"
        return is_there and found is not None and found.sandbox_id == pod.sandbox_id

    async def refuse_updates(self) -> None:
        """A few in a row are refused: fewer than are tried, or more where starts then are refused too."""
        most = 12 if self.rules.on_policy_error == "reject" else 3
        await self._with_fault(UNKNOWN, "device or resource busy", times=self.random.randint(1, most), after=False)

    async def lose_answers(self) -> None:
        """Updates take effect, and nobody learns."""
        await self._with_fault(
            DEADLINE_EXCEEDED, "context deadline exceeded", times=self.random.randint(1, 3), after=True
        )

    async def _with_fault(self, code: int, message: str, *, times: int, after: bool) -> None:
        self.runtime.faults.fail_next(UPDATE, code, message, times=times, after=after)
        await self.random.choice([self.run_pod, self.remove_pod, self.burst, self.resize])()
        await self.node.settle()
        self.check()
        self.runtime.faults.clear()
        self.log.errors = [error for error in self.log.errors if not error.startswith(UPDATE_FAILED)]
        self.node.effects.retry_failed()

    async def tamper(self) -> None:
        """Somebody writes another cpuset; the next look at the cgroups finds it and has it put back."""
        there = [c for i, c in sorted(running(self.runtime).items()) if self._tampered.get(i, 0) < TAMPERS]
        if not there or not self.options.pin_cpu:
            return
        victim = self.random.choice(there)
        row = self.node.context.ledger.holder(victim.id)
        if row is None or (wanted := self.node.context.ledger.desired().get(row.key)) is None or wanted.cpus is None:
            return
        self._tampered[victim.id] = self._tampered.get(victim.id, 0) + 1
        victim.kernel_cpus = str(CpuSet.of([self.random.choice(list(wanted.cpus))]))
        await self.node.drift.check()

    # What the operator and the machine do.

    async def reconfigure(self) -> None:
        """Other options; refused as a whole where somebody would lose what he has."""
        machine = self.policy.machine
        options = random_options(machine, self.random, random_available(machine, self.random))
        options = replace(options, topology=self._topology(machine))
        enacted = TopologyAwareOptions(
            lift_quota=self.random.random() < 0.5, fraction_shares=self.random.random() < 0.5
        )
        rules = replace(
            self.node.coordinator.config,
            policy_options=(enacted,),
            resource_files=self.random.choice(("auto", "always", "never")),
        )
        await self._change(machine, options, rules, must_fit=True)

    async def change_costs(self) -> None:
        """Devices come and go, and cost something else. Those that are held stay with their holders."""
        self.inventory = random_inventory(self.random, self.whole)
        use_costs(self.node, self.inventory)
        self.policy = self.node.context.ledger.policy

    async def hotplug(self) -> None:
        """CPUs and memory come and go: the kernel acts at once, we are told afterwards."""
        gone, emptied = random_gone(self.whole, self.random)
        machine, options = unplugged(self.whole, gone, emptied), self.options
        if not options.available & machine.online:
            options = replace(options, available=machine.online)
        self.runtime.node.machine = machine
        await self._change(machine, options, self.node.coordinator.config, must_fit=False)

    async def _change(self, machine: Machine, options: TopologyAwareOptions, rules: Config, *, must_fit: bool) -> None:
        """Until the last update has gone out, containers are inside the old or the new CPUs."""
        before, allowed = self.options, options.available & machine.online
        self._allowed = self._allowed | allowed
        self.options = options if options.pin_cpu else before
        policy = self._policy(machine, options)
        self.options = replace(options, pin_cpu=options.pin_cpu and before.pin_cpu)
        if await reconfigure(self.node, policy, rules, must_fit=must_fit):
            self.options, self._allowed = before, before.available & self.policy.machine.online
            return
        await self.node.settle()
        self.policy, self.options, self.rules = policy, options, rules
        # What waits for a start from before the daemon's own is on its old CPUs still.
        if not waiting_for_starts(self.node.context.ledger):
            self._allowed = allowed

    def _topology(self, machine: Machine) -> TopologyOptions:
        merges = self.random.random() < 0.5 and len(machine.nodes) <= MOST_MERGED
        return random_topology(self.random) if merges else TopologyOptions()

    def _perhaps_asking(self, spec: PodSpec) -> PodSpec:
        return asking(self.random, spec) if self.random.random() < ASKING else spec

    def _policy(self, machine: Machine, options: TopologyAwareOptions) -> Policy:
        return build_policy("topology-aware", machine, options, DeviceInventory((), costs=self.inventory))

    def _pick(self) -> tuple[LivePod | None, str]:
        choices = [(pod, name) for _, pod in sorted(self.pods.items()) for name in sorted(pod.ids)]
        return self.random.choice(choices) if choices else (None, "")

    async def _create_and_start(self, pod: LivePod, container: ContainerSpec) -> None:
        new = await self._create(pod, container)
        if new is None:
            return
        try:
            await self.kubelet.start(new)
        except CallFailed:
            self.refused += 1
            await self.kubelet.remove(new)
            return
        pod.ids[container.name] = new

    async def _create(self, pod: LivePod, container: ContainerSpec) -> str | None:
        """The next attempt, which is not started yet; None where it is refused."""
        pod.ids.pop(container.name, None)
        attempt = pod.attempts.get(container.name, -1) + 1
        pod.attempts[container.name] = attempt
        listed = self.listed()
        try:
            new = await self.kubelet.create(pod.spec, container, pod.sandbox_id, attempt=attempt)
        except CallFailed:
            self.refused += 1
            return None
        given = told(self.runtime.node.containers[new])
        assert {*given} <= listed | self.listed(), f"{given} are not in the cost files"
        return new
