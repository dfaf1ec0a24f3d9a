"""Random lives of pods with GPUs and NICs of an inventory: init containers, crashes, restarts of what runs beside them.

A kubelet runs init containers one after the other and makes the next attempt of what has failed, when it gets to it;
pods wait for devices meanwhile. What a container is told when it is created says whose each device is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.grant_text import grant_parts_from_text
from cri_proxy.cri_client.pods import ContainerRole, ContainerSpec, PodSpec
from cri_proxy.errors import CallFailed
from policies.builder import build_policy
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice
from policies.hardware.reserve import choose_reserved
from policies.topology_aware import TopologyAwareOptions, held_twice
from sysfs.model import Machine
from tests.fakes.site import Site

ASKS = (
    "nvidia.com/gpu=1",
    "nvidia.com/gpu=1",
    "nvidia.com/gpu=2",
    "koordinator.sh/rdma=100",
    "nvidia.com/gpu=1,rdma=100",
)
"""Whole devices alone: of shares others may have the rest."""


@dataclass
class DevicePod:
    """A pod in the middle of its life. ``waiting`` are containers that the kubelet has yet to run, in their order."""

    spec: PodSpec
    sandbox_id: str
    waiting: list[ContainerSpec]
    running: dict[str, str] = field(default_factory=dict)  # the id of each container that runs
    ended: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    had: dict[str, frozenset[DeviceGrant]] = field(default_factory=dict)  # by the last attempt of each container


class DeviceLife(Site):
    """One life, with few devices for many pods."""

    def __init__(self, machine: Machine, seed: int) -> None:
        """Put four GPUs and two NICs onto the machine's nodes."""
        self.random = Random(seed)
        nodes = [node.id for node in machine.nodes]
        kinds = ("gpu", "rdma", "gpu", "gpu", "rdma", "gpu")
        devices = tuple(InventoryDevice(k, i, self.random.choice(nodes), f"p{i // 3}") for i, k in enumerate(kinds))
        options = TopologyAwareOptions(machine.online, choose_reserved(machine, machine.online, 500))
        policy = build_policy("topology-aware", machine, options, DeviceInventory(devices))
        super().__init__(policy, rules=Config(on_policy_error="reject"))
        self.pods: list[DevicePod] = []
        self.refused = 0
        self.met: set[str] = set()
        self._count = 0
        self._owner: dict[tuple[str, int | str], str] = {}  # the sandbox of each device's pod

    async def step(self) -> None:
        """Do one thing, and check what must hold then."""
        often = [(self.come, 5), (self.run_next, 12), (self.crash, 7), (self.end_init, 7), (self.collect, 3)]
        seldom = [(self.leave, 4), (self.restart_proxy, 1), (self.restart_runtime, 1), (self.slow_check, 2)]
        moves, times = zip(*often, *seldom, strict=True)
        move = self.random.choices(moves, times)[0]
        await move()
        await self.node.settle()
        self.look()
        assert not self.log.errors, self.log.errors

    def look(self) -> None:
        """No device is granted to two pods, or to another one than has it until its sandbox stops; nobody finds one."""
        rows = [row for row in self.node.context.ledger.active() if row.grant.devices]
        for row in rows:
            for device in row.grant.devices:
                self._is_of(device, row.sandbox_id)
        assert not list(held_twice(self.node.context.ledger.allocations, self.policy.known))

    def _is_of(self, device: DeviceGrant, sandbox_id: str) -> None:
        owner = self.runtime.node.sandboxes.get(self._owner.get(device.key, ""))
        is_free = owner is None or not owner.ready
        assert is_free or owner is None or owner.id == sandbox_id, f"{device} has left {owner.name}"
        self._owner[device.key] = sandbox_id

    async def come(self) -> None:
        """A pod with up to two init containers and up to two others, most of which ask for devices."""
        if len(self.pods) >= 8:
            return
        self._count += 1
        inits = [ContainerSpec(f"init{i}", role=ContainerRole.INIT) for i in range(self.random.choice((0, 0, 1, 2)))]
        apps = [ContainerSpec(f"app{i}") for i in range(self.random.choice((1, 1, 2)))]
        asks = {c.name: self.random.choice(ASKS) for c in (*inits, *apps) if self.random.random() < 0.8}
        keys = tuple(sorted((f"device-resources.cri-proxy.io/container.{name}", ask) for name, ask in asks.items()))
        spec = PodSpec(f"p{self._count}", (*inits, *apps), annotations=keys)
        self.pods.append(DevicePod(spec, await self.kubelet.run_sandbox(spec), [*inits, *apps]))

    async def run_next(self) -> None:
        """The kubelet gets to a pod: its next init container, or each of the others, or another attempt of one."""
        pod = self._any(pod for pod in self.pods if pod.waiting)
        if pod is None or any(c.role is ContainerRole.INIT and c.name in pod.running for c in pod.spec.containers):
            return
        container = pod.waiting[0]
        if container.role is not ContainerRole.INIT:
            container = self.random.choice(pod.waiting)
        attempt = pod.attempts[container.name] = pod.attempts.get(container.name, -1) + 1
        try:
            new = await self.kubelet.create(pod.spec, container, pod.sandbox_id, attempt=attempt)
        except CallFailed as error:
            self.refused += 1
            self.met.add("refused")
            assert not pod.had.get(container.name), f"{pod.spec.name}/{container.name} has lost its devices: {error}"
            return
        given = self._told(new)
        self._is_as_before(pod, container, given)
        # What others of the pod had is handed on: the kubelet hands on those of init containers, and tells us nothing.
        pod.had = {name: had for name, had in pod.had.items() if not had & given} | {container.name: given}
        await self.kubelet.start(new)
        pod.waiting.remove(container)
        pod.running[container.name] = new

    def _is_as_before(self, pod: DevicePod, container: ContainerSpec, given: frozenset[DeviceGrant]) -> None:
        """The next attempt has the devices of the one before it."""
        before = pod.had.get(container.name)
        assert before is None or before == given, f"{pod.spec.name}/{container.name} had {before}, has {given}"
        if before:
            self.met.add("again")
        elif any(given & had for name, had in pod.had.items() if name != container.name):
            self.met.add("handed on")

    def _told(self, container_id: str) -> frozenset[DeviceGrant]:
        text = self.runtime.node.containers[container_id].config.annotations.get(GRANT_KEY, "")
        devices = grant_parts_from_text(text).devices if text else ()
        return frozenset(replace(device, resources=(), known_as=()) for device in devices)

    async def crash(self) -> None:
        """A container ends and waits for its next attempt; an app that ends does too (restartPolicy Always)."""
        await self._end(waits=True)

    async def end_init(self) -> None:
        """An init container has done its work."""
        await self._end(waits=False)

    async def _end(self, *, waits: bool) -> None:
        found = [(pod, c) for pod in self.pods for c in pod.spec.containers if c.name in pod.running]
        found = [(pod, c) for pod, c in found if waits or c.role is ContainerRole.INIT]
        if not found:
            return
        pod, container = self.random.choice(found)
        ended = pod.running.pop(container.name)
        pod.ended.append(ended)
        if waits:
            pod.waiting.insert(0, container)
        self.runtime.exit(ended)
        if self.random.random() < 0.5:  # else the next look finds it
            await self.node.resync.check_all("test")

    async def collect(self) -> None:
        """The kubelet removes what has ended of a pod, but for the last attempts or not."""
        pod = self._any(pod for pod in self.pods if pod.ended)
        if pod is not None:
            await self.kubelet.remove(pod.ended.pop(0))

    async def leave(self) -> None:
        """A pod is deleted."""
        pod = self._any(iter(self.pods))
        if pod is not None:
            self.pods.remove(pod)
            await self.kubelet.remove_pod(pod.sandbox_id)

    async def restart_proxy(self) -> None:
        """A new process on the same store."""
        await self.node.settle()
        await self.open(self.look)

    async def restart_runtime(self) -> None:
        """The runtime comes back with all that it had."""
        self.runtime.restart()
        await self.node.resync.check_all("the runtime is back")

    async def slow_check(self) -> None:
        """What the daemon does every now and then."""
        await self.clock.sleep(100.0)
        await self.node.resync.check_all("slow check")
        await self.node.slow_check()

    def _any(self, pods: Iterator[DevicePod]) -> DevicePod | None:
        found = list(pods)
        return self.random.choice(found) if found else None
