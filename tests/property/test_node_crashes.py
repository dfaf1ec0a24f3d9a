"""The proxy dies at any moment, without a word, and the next one takes over from the store and the runtime.

The dying process's last call or save has taken effect, or has not, and it never learns which; nothing that it asks
for later happens. A kubelet that starts anew finishes the story.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

import pytest

from cri_proxy.node.node import Node
from cri_proxy.runtime.embedded import EmbeddedChannel, EmbeddedRuntime
from cri_proxy.state.memory import MemoryStore
from cri_proxy.state.rows import Saveable
from cri_proxy.tryout import pods
from cri_proxy.tryout.image import IMAGE
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from policies.base import ContainerKey
from policies.options import PolicyOptions
from policies.registry import build_policy
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.site import Site

T = TypeVar("T")
BYSTANDERS = ("alone", "sharing")


class Death:
    """Numbers what a process asks of the world; number ``fatal`` is its last. ``before``: that one does not happen."""

    def __init__(self, fatal: int, *, before: bool) -> None:
        self.asked = 0
        self.came = asyncio.Event()
        self._fatal = fatal
        self._before = before

    async def around(self, act: Coroutine[object, object, T]) -> T:
        self.asked += 1
        number = self.asked
        if self.came.is_set() or (number == self._fatal and self._before):
            act.close()
            await self._end()
        result = await asyncio.gather(act, return_exceptions=True)
        if self.came.is_set() or number == self._fatal:
            await self._end()
        if isinstance(result[0], BaseException):
            raise result[0]
        return result[0]

    async def _end(self) -> None:
        self.came.set()
        await asyncio.Event().wait()


class MortalChannel(EmbeddedChannel):
    def __init__(self, runtime: EmbeddedRuntime, death: Death) -> None:
        super().__init__(runtime)
        self._death = death

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return await self._death.around(super().unary(method, message, timeout_seconds=timeout_seconds))


class MortalRuntime(EmbeddedRuntime):
    """Lives on; whoever asks for a channel while ``death`` is set dies of it."""

    death: Death | None = None

    def channel(self) -> EmbeddedChannel:
        return super().channel() if self.death is None else MortalChannel(self, self.death)


class MortalStore(MemoryStore):
    """Lives on, too."""

    death: Death | None = None

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str] = ()) -> None:
        save = super().save(puts, deletes)
        await (save if self.death is None else self.death.around(save))


class Scene(Site):
    """A node with two pods that nothing is done to: one with CPUs of its own, one that shares."""

    def __init__(self) -> None:
        machine = small_machine()
        super().__init__(build_policy("topology-aware", machine, PolicyOptions(machine.online, CpuSet.parse("0"))))
        self.runtime: MortalRuntime = MortalRuntime(machine, image_names=(IMAGE,), modern=False)
        self.store: MortalStore = MortalStore()

    async def set_up(self) -> None:
        await self.open()
        self.alone = (await self.run("alone", guaranteed("c", 1000))).container_id("c")
        self.sharing = (await self.run("sharing", ContainerSpec("c", cpu_request_mcpu=500))).container_id("c")
        await self.node.settle()
        self.before = self.recorded()

    async def story(self) -> None:
        """The process starts; pods come, are resized, restart and go."""
        await self.open(self.check)
        spec = PodSpec("web", (guaranteed("c", 2000),))
        web = await self.kubelet.run_pod(spec)
        await self.node.settle()
        grown = pods.resources(spec, guaranteed("c", 3000), self.kubelet.node)
        await self.kubelet.update(web.container_id("c"), grown)
        await self.kubelet.update(web.container_id("c"), pods.resources(spec, spec.containers[0], self.kubelet.node))
        self.runtime.exit(web.container_id("c"))
        again = await self.kubelet.create(spec, spec.containers[0], web.sandbox_id, attempt=1)
        await self.kubelet.start(again)
        await self.kubelet.remove(web.container_id("c"))
        await asyncio.gather(
            self.kubelet.remove_pod(web.sandbox_id), self.kubelet.run_pod(PodSpec("db", (guaranteed("c", 3000),)))
        )
        await self.node.settle()

    def check(self) -> None:
        """At this moment nobody runs on CPUs that another running container owns."""
        running = {c.id: self.runtime.effective(c.id)[0] for c in self.live() if c.running}
        holders = [row for i in running if (row := self.node.context.ledger.holder(i)) is not None]
        owned = {row.container_id: row.grant.owned & running[row.container_id] for row in holders}
        for container_id, cpus in running.items():
            for other, theirs in owned.items():
                assert other == container_id or cpus.isdisjoint(theirs), (
                    f"{container_id} on {cpus}, {other} owns {theirs}"
                )

    async def next_life(self) -> None:
        """A new process; the runtime and what is in the store are as the old one left them."""
        self.runtime.death = self.store.death = None
        await self.open()
        self.check()
        live = {c.id for c in self.live()}
        assert {row.container_id for row in self.node.context.ledger.active()} == live, "leaked or overlooked"
        assert self.recorded()[self.alone] == self.before[self.alone]
        assert not self.log.errors

    async def finish(self) -> None:
        """The kubelet finds its pods by the runtime's list, removes what the story made, and all is as it was."""
        for sandbox in list(self.runtime.node.sandboxes.values()):
            if sandbox.config.metadata.name not in BYSTANDERS:
                await self.kubelet.remove_pod(sandbox.id)
        await self.node.settle()
        assert self.recorded() == self.before
        rows = self.store.load().rows
        assert [row.container_id for row in rows] == [row.container_id for row in self.node.context.ledger.rows()]
        assert {row.container_id for row in rows} == {self.alone, self.sharing}


async def bury(node: Node, *tasks: asyncio.Task[None] | asyncio.Task[Literal[True]]) -> None:
    """End the coroutines of a dead process."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await node.background.cancel()
    await node.effects.close()
    await node.context.tasks.cancel()


async def live_and_die(fatal: int, *, before: bool) -> bool:
    """One life that ends at this point, and the next; False when the story ended first."""
    scene = Scene()
    await scene.set_up()
    death = Death(fatal, before=before)
    scene.runtime.death = scene.store.death = death
    async with asyncio.timeout(20):
        loop = asyncio.get_running_loop()
        story, end = loop.create_task(scene.story()), loop.create_task(death.came.wait())
        await asyncio.wait([story, end], return_when=asyncio.FIRST_COMPLETED)
        died, dead = death.came.is_set(), scene.node
        if not died:
            await story
        await scene.next_life()
        await scene.finish()
    await bury(dead, story, end)
    return died


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_no_death_leaks_grants_twice_or_moves_a_bystander(before: bool) -> None:
    fatal = 1
    while asyncio.run(live_and_die(fatal, before=before)):
        fatal += 1
    assert fatal > 30, "the story asks for too little to tell"
