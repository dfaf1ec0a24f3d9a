"""A node to which something is done at each moment of a story, and what must be so afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Deletable, Saveable
from policies.builder import build_policy
from policies.devices import DeviceInventory
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.device_checks import DeviceCheck
from tests.fakes.device_policy import inventory
from tests.fakes.machines import small_machine
from tests.fakes.node_checks import check_moment, check_settled, pinned
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.site import Site

GPUS = ("example.com/gpu/0", "example.com/gpu/1")
ONE_GPU = ("device-request.cri-proxy.io/container.c", "example.com/gpu=1")
SPEC = PodSpec("web", (guaranteed("c", 2000), ContainerSpec("d", cpu_request_mcpu=300)), annotations=(ONE_GPU,))


class SlowRuntime(ScriptedRuntime):
    """Takes a few turns of the loop before it acts and before it answers."""

    async def call(self, method: str, message: bytes) -> bytes:
        await turns(2)
        reply = await super().call(method, message)
        await turns(2)
        return reply


class SlowStore(MemoryStore):
    """Takes a few turns of the loop for each save, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        async with self._turn:
            await turns(2)
            await super().save(puts, deletes)


class Scene(Site):
    """A node with two pods that nothing is done to: one with CPUs and a device of its own, one that shares.

    The one that owns leaves less of its socket than the other has: the one that shares has one best place. The pod of
    the story needs the other device: where one is left with somebody who is gone, it is refused the next time.
    """

    def __init__(
        self, *, rules: Config | None = None, around: Callable[[Policy], Policy] = lambda policy: policy
    ) -> None:
        machine = small_machine()
        self.options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
        devices = DeviceInventory((), costs=inventory(*GPUS))
        super().__init__(around(build_policy("topology-aware", machine, self.options, devices)), rules=rules)
        self.runtime = SlowRuntime(machine, now_ns=self._now_ns, image_names=(IMAGE,))
        self.store: SlowStore = SlowStore()
        self.devices = DeviceCheck(self.runtime)
        self.watches = True

    async def set_up(self) -> None:
        await self.open(self.look)
        alone = PodSpec("alone", (guaranteed("c", 2000),), annotations=(ONE_GPU,))
        self.alone = (await self.run_spec(alone)).container_id("c")
        await self.run("sharing", ContainerSpec("c", cpu_request_mcpu=500))
        await self.node.settle()
        self.before = self.recorded()

    def look(self) -> None:
        if self.watches:
            ledger = self.node.context.ledger
            check_moment(pinned(self.runtime, ledger), ledger, self.options.available)
            self.devices.look(ledger)

    async def story(self) -> None:
        """A pod comes, is resized, restarts a container, and goes. Raises what its calls raise."""
        web = await self.kubelet.run_pod(SPEC)
        await self.resize(web, 3000)
        await self.resize(web, 1000)
        await self.kubelet.stop(web.container_id("c"))
        again = await self.kubelet.create(SPEC, SPEC.containers[0], web.sandbox_id, attempt=1)
        await self.kubelet.start(again)
        await self.kubelet.remove(web.container_id("c"))
        await self.kubelet.remove_pod(web.sandbox_id)

    async def resize(self, pod: RunningPod, mcpu: int) -> None:
        changed = pods.resources(pod.spec, guaranteed("c", mcpu), self.kubelet.node)
        await self.kubelet.update(pod.container_id("c"), changed)

    async def go_on(self) -> None:
        """The trouble is over: the slow check comes by, and the node works as before."""
        await self.node.settle()
        assert self.recorded()[self.alone] == self.before[self.alone], "a bystander was moved"
        await self.node.resync.check_all("slow check")
        self.node.effects.retry_failed()
        await self.node.slow_check()
        await self.node.settle()
        self.node.context.persistence.catch_up()
        await self.node.settle()
        self.look()
        check_settled(self.runtime, self.node.context.ledger, self.options)
        self.devices.look_settled(self.node.context.ledger)
        for sandbox in list(self.runtime.node.sandboxes.values()):
            if sandbox.config.metadata.name == SPEC.name:
                await self.kubelet.remove_pod(sandbox.id)
        await self.story()
        await self.node.slow_check()  # brings home those that share, which moved out of the pod's way
        await self.node.settle()
        assert self.recorded() == self.before, "leaked, or granted twice"
        assert self.devices.held() == {GPUS[0]}
        saved = {row.container_id: row.grant for row in self.store.load().rows}
        assert saved == {row.container_id: row.grant for row in self.node.context.ledger.rows()}
        assert saved.keys() == self.before.keys()


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def as_far_as_it_goes(story: Awaitable[None]) -> None:
    """The kubelet sees a call fail, and does nothing more."""
    with suppress(CallFailed, RuntimeUnavailable):
        await story


@asynccontextmanager
async def going_on(scene: Scene) -> AsyncIterator[Scene]:
    """Set up; whatever is done to it then, all goes on afterwards."""
    async with asyncio.timeout(30):
        await scene.set_up()
        yield scene
        await scene.go_on()
