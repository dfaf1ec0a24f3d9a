"""A new daemon on what a death has left: it takes over, finishes what the kubelet wants, and everything goes again.

Checked at every moment, by what the kernel lets containers use: nobody is on CPUs that another has alone, those of the
dead daemon's time included; no container is on CPUs that the new daemon does not know of; nobody gets a device that
another has. Checked once it has taken over: who lived keeps what it owned, its devices too, nothing is held for nobody,
bystanders are where they were, ``explain`` answers.
Checked at the end: nothing is left, in memory or on the disk.
"""

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, cast

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.errors import CallFailed
from cri_proxy.node.status.view import NodeView
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.runtime.embedded.state import Container
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, Grant
from policies.devices import DeviceInventory
from sysfs.cpuset import CpuSet
from tests.fakes.device_checks import DeviceCheck
from tests.fakes.histories import LivePod
from tests.fakes.lone_loop import run_alone
from tests.fakes.node_checks import (
    MoveCheck,
    has_online_cpus,
    is_replaced,
    parsed,
    pinned,
    running,
    sent_again,
    waiting_for_starts,
)
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.faults.living import Configuration, Death, Living, copied
from tests.faults.observed import AS_THEY_ARE, Parts

# What becomes of a request that was under way: the runtime never saw it, it has acted by the time that the next
# daemon starts, or it acts while that one looks at the node.
Fate = Literal["lost", "acted", "late"]
FATES: tuple[Fate, ...] = ("lost", "acted", "late")
BOUND_SECONDS = 120.0  # for what hangs, by the turns of the loop: an afterlife takes a tenth of a second
# In these containers end, move or come for reasons of their own.
RESTLESS = frozenset(
    {"reconfigure", "hotplug", "slow_check", "let_time_pass", "tamper", "resize", "rush", "start_after_all"}
)


@dataclass(frozen=True, slots=True)
class Chance:
    """What is left to chance in an afterlife. Cost files that change meanwhile change nothing of those who live."""

    fate: Fate
    configuration: Configuration
    has_other_costs: bool
    seed: int


def chances(death: Death) -> tuple[Chance, ...]:
    """All that can come of a death."""
    fates = FATES if death.in_flight else FATES[:1]
    return tuple(
        Chance(*chance, seed=number)
        for number, chance in enumerate(itertools.product(fates, death.configurations, (False, True)))
    )


class LateChannel(RuntimeChannel):
    """The first list of containers is barely answered when the dead daemon's last requests take effect."""

    def __init__(self, inner: RuntimeChannel, act: Callable[[], object]) -> None:
        self._inner = inner
        self._act = act

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        reply = await self._inner.unary(method, message, timeout_seconds=timeout_seconds)
        if method.endswith("/ListContainers"):
            await self._act()  # type: ignore[misc]  # a coroutine function
        return reply

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self._inner.stream(method, message)

    async def close(self) -> None:
        await self._inner.close()


class Afterlife(Living):
    """The node after a death."""

    def __init__(self, death: Death, chance: Chance, parts: Parts = AS_THEY_ARE) -> None:
        configuration = chance.configuration
        late = replace(parts, channel=lambda inner: LateChannel(parts.channel(inner), self._act_late))
        super().__init__(death.whole, configuration.options, chance.seed, parts=late)
        self.random = Random(chance.seed)
        self.death = death
        self.chance = chance
        self.policy, self.options, self.rules = configuration.policy, configuration.options, configuration.rules
        if chance.has_other_costs:
            self.policy = self.policy.with_devices(DeviceInventory((), costs=self.inventory))
        self.inventory = self.policy.devices.costs
        self.clock._now = death.now_seconds
        self.runtime = _revived(death, configuration, self._now_ns)
        self.last_ns = max((c.created_at_ns for c in death.containers), default=0)
        self._moves = MoveCheck(self.runtime)
        self._moves.look()
        self.devices = DeviceCheck(self.runtime)
        self._allowed = death.allowed | configuration.options.available & self.policy.machine.online
        self.pods = {pod.spec.name: replace(pod, ids=dict(pod.ids), attempts=dict(pod.attempts)) for pod in death.pods}
        self._names = 1000  # names that nobody has yet
        self.doing = death.doing
        self._settled, self._is_same = death.settled, configuration.is_same
        self._left = list(death.in_flight)
        self._alone_before = dict(death.alone)

    async def whole_life(self) -> None:
        """Everything, in order. Raises AssertionError."""
        await self.store.take(self.death.saved)
        if self.chance.fate == "acted":
            await self._act_late()
        before = self.recorded()
        await self.open(self.check)
        if self.chance.fate == "late":  # what came after the first look is found by the next
            await self.node.resync.check_all("slow check")
            await self.node.settle()
        self._check_taken_over(before)
        await self._finish()
        self._check_all()
        await self._leave()

    async def _act_late(self) -> None:
        requests, self._left = self._left, []
        for method, message in requests if self.chance.fate != "lost" else ():
            try:
                await self.runtime.call(method, message)
            except CallFailed:
                continue

    # What a second kill would leave: what this daemon has not taken up yet counts as the first one knew it.

    def _grants(self) -> dict[str, Grant]:
        return {**self.death.grants, **super()._grants()}

    def _alone(self, container: Container) -> CpuSet:
        known = super()._alone(container)
        return known if self.node.coordinator.is_ready else known | self._alone_before.get(container.id, CpuSet())

    # What must hold.

    def check_pinned(self, there: Mapping[str, tuple[Row, CpuSet]]) -> None:
        super().check_pinned(there)
        self._check_alone(there)
        if self.node.coordinator.is_ready and not self._left:
            self._check_belief(there)

    def _check_alone(self, pinned_ones: Mapping[str, tuple[Row, CpuSet]]) -> None:
        """What a container had alone when the old daemon died is its alone, until the new one says otherwise."""
        if not self._alone_before:
            return
        there, ours = running(self.runtime), self._ours(pinned_ones)
        for container_id, cpus in list(self._alone_before.items()):
            row = self.node.context.ledger.holder(container_id)
            if container_id not in there or (self.node.coordinator.is_ready and row is None):
                del self._alone_before[container_id]  # ended
                continue
            claimed = cpus & row.grant.owned if row is not None else cpus
            claimed = claimed and claimed & self.runtime.effective(container_id)[0]
            self._alone_before[container_id] = claimed
            for other, on in ours.items() if claimed else ():
                clash = claimed.mask & on.mask and other != container_id
                assert not clash, f"{other} came onto {claimed & on}, which {container_id} had alone"

    def _ours(self, pinned_ones: Mapping[str, tuple[Row, CpuSet]]) -> dict[str, CpuSet]:
        """Where those are who are where a daemon has put them."""
        if self.node.coordinator.is_ready:
            return {i: cpus for i, (_, cpus) in pinned_ones.items()}
        there = ((i, c) for i, c in running(self.runtime).items() if c.record.cpuset_cpus)
        return {i: self.runtime.effective(i)[0] for i, c in there if has_online_cpus(self.runtime, c)}

    def _check_belief(self, there: Mapping[str, tuple[Row, CpuSet]]) -> None:
        """Nobody is where the daemon does not think that it may be."""
        for container_id, (row, _) in there.items():
            if row.acknowledged is None or row.acknowledged.cpus is None:
                continue
            on = parsed(self.runtime.node.containers[container_id].record.cpuset_cpus)
            assert on <= row.acknowledged.cpus, f"{row.key} is on {on}, believed to be on {row.acknowledged.cpus}"

    def _check_taken_over(self, before: dict[str, tuple[str, str]]) -> None:
        death, settled = self.death, self.death.settled
        self._check_all()
        if not self.chance.configuration.is_same:
            return
        if death.is_quiet:
            assert self.recorded() == before, "a restart changed a pinning"
            assert self.node.effects.sent <= sent_again(death.saved.rows), "a restart sent updates"
        elif death.doing not in RESTLESS and self._is_undone():
            # Whom a container that never came has displaced goes back, unless somebody needs the room by now. A place
            # that is given back is also when memory returns for which there was room already (``node.rebalance``), and
            # when those are tried again for whom there was none.
            moved = {i for i, grant in death.grants.items() if settled.grants.get(i, grant) != grant} | self._due()
            moved |= settled.waiting
            moved |= {i for i, grant in settled.grants.items() if grant.is_overcommitted}
            for container_id, there in self.recorded().items():
                was = settled.recorded[container_id]
                assert container_id in moved or there == was, f"nothing came of it, {container_id} is on {there}: {was}"
        self._check_nothing_lost()

    def _is_undone(self) -> bool:
        """Whether the store knew of no end and no start of a container since it was settled.

        The runtime still lists a container that was created and stopped without a start; others have its CPUs.
        """
        there = self.recorded().keys()
        ended = {row.container_id for row in self.death.saved.rows if row.state == "exited"}
        return there == self.death.settled.recorded.keys() and not ended & there

    def _due(self) -> set[str]:
        """The containers whose memory could have returned to fewer nodes before the kill: the next release does it."""
        ids = {grant.container: i for i, grant in self.death.settled.grants.items()}
        held, due = Allocations().with_grants(*self.death.settled.grants.values()), set[str]()
        while narrowed := self.policy.narrowed(held):
            held = held.with_grants(*narrowed)
            due |= {ids[grant.container] for grant in narrowed}
        return due

    def _check_nothing_lost(self) -> None:
        ledger, settled = self.node.context.ledger, self.death.settled
        # Of one whose create was not answered the store has no id. It may have been placed elsewhere since, before its
        # start, and that not be saved yet.
        saved = {row.container_id or row.key: row.grant for row in self.death.saved.rows}
        for container in self.live():
            row = ledger.holder(container.id)
            if row is None and self._was_replaced(container):
                continue
            assert row is not None, f"{container.name} lives and holds nothing"
            known = [grants.get(container.id) for grants in (settled.grants, saved, self.death.grants)]
            possible = {grant.owned for grant in (*known, saved.get(row.key)) if grant is not None}
            # Who had to share for want of room may get CPUs of its own when a place is given back.
            assert not all(possible) or not possible or row.grant.owned in possible, (
                f"{row.key} owned {' or '.join(map(str, possible))}, now {row.grant.owned or 'nothing'}"
            )
            record = self.journal.records.get(row.key)
            outcome = settled.outcomes.get(row.key)
            if outcome is not None and container.id in settled.recorded:
                assert record is not None, f"the decision about {row.key} is lost"
                assert record.outcome.value in (outcome, "placed"), f"{row.key}: {outcome} became {record.outcome}"

    def _was_replaced(self, container: Container) -> bool:
        """Whether it was created, and there is, or is known to have been, another attempt instead of its start."""
        name = (container.sandbox_id, container.config.metadata.name)
        places = ((row.sandbox_id, row.key.name) for row in self.node.context.ledger.rows())
        return is_replaced(self.runtime, container) or (not container.running and name in places)

    def _check_all(self) -> None:
        """Nothing is under way: grants, records, kernel and beliefs agree."""
        ledger = self.node.context.ledger
        waiting = waiting_for_starts(ledger)
        self._allowed = self.options.available & self.policy.machine.online | self._left_on(waiting)
        self.check()
        self.check_settled()
        for container_id, (row, _) in pinned(self.runtime, ledger, self.live()).items():
            # What waits may have got the dead daemon's last update or not: ``_check_belief`` has its bound.
            if row.acknowledged is not None and row.key not in waiting:
                believed = row.acknowledged
                if row.unconfirmed is not None and ledger.starts.presumed(row) is not None:
                    believed = row.unconfirmed.over(believed)  # a start from before may lose it
                known = (str(believed.cpus), str(believed.mems or ""))
                record = self.runtime.node.containers[container_id].record
                actual = (record.cpuset_cpus, record.cpuset_mems)
                assert known[0] == actual[0], f"{row.key} is on {actual}, believed to be on {known}"
                assert not known[1] or known[1] == actual[1], f"{row.key} is on {actual}, believed to be on {known}"
        self._check_explain()
        assert not self.log.errors, self.log.errors

    def _left_on(self, waiting: Collection[ContainerKey]) -> CpuSet:
        """Where those are who wait for a start from before: the options that let them be there may have changed since.

        Who is created there may still come alive, so that they cannot leave yet.
        """
        rows = pinned(self.runtime, self.node.context.ledger).values()
        return CpuSet.of_masks(cpus.mask for row, cpus in rows if row.key in waiting)

    def _check_explain(self) -> None:
        view = NodeView(self.node, name="node")
        assert view.status().is_ready
        keys = [row.key for row in self.node.context.ledger.active()]
        for pod_uid in dict.fromkeys(key.pod_uid for key in keys):
            decisions = view.explain(pod_uid, None).decisions
            told = sorted(d.decision.key.name for d in decisions if d.container is not None)
            held = sorted(key.name for key in keys if key.pod_uid == pod_uid)
            assert told == held, f"{pod_uid} holds something for {held}, of which explain tells {told}"

    # What the kubelet does next.

    async def _finish(self) -> None:
        """Each container of each pod that is wanted runs, or is refused; a new pod comes."""
        for pod in list(self.pods.values()):
            if pod.sandbox_id in self.runtime.node.sandboxes:
                for container in pod.spec.containers:
                    await self._make_run(pod, container.name)
        await self.run_pod()
        await self.node.settle()

    async def _make_run(self, pod: LivePod, name: str) -> None:
        meant = [c for c in self.runtime.node.containers.values() if c.sandbox_id == pod.sandbox_id]
        meant = [c for c in meant if c.config.metadata.name == name]
        pod.attempts[name] = max((c.config.metadata.attempt for c in meant), default=-1)
        created = [c for c in meant if c.state == pb.CONTAINER_CREATED]
        if any(c.running for c in meant):
            return
        if created and self.random.random() < 0.5:  # as crictl does it; the kubelet begins anew
            try:
                await self.kubelet.start(created[-1].id)
            except CallFailed:
                self.refused += 1
                await self.node.resync.check_all("test")
            return
        await self._create_and_start(pod, next(c for c in pod.spec.containers if c.name == name))
        for old in meant:
            await self.kubelet.remove(old.id)

    async def _leave(self) -> None:
        """The kubelet removes all that the runtime has."""
        for sandbox_id in list(self.runtime.node.sandboxes):
            await self.kubelet.remove_pod(sandbox_id)
        await self.node.settle()
        ledger = self.node.context.ledger
        assert list(ledger.rows()) == [], "leaked"
        assert not ledger.allocations.grants
        assert not ledger.allocations.withheld
        saved = self.store.load()
        assert (saved.rows, saved.sandboxes) == ((), ()), "leaked on the disk"
        assert not self.log.errors, self.log.errors


def _revived(death: Death, configuration: Configuration, now_ns: Callable[[], int]) -> ScriptedRuntime:
    """The runtime as it went on; copied, so that each afterlife has its own."""
    runtime = ScriptedRuntime(configuration.policy.machine, now_ns=now_ns, image_names=(IMAGE,), modern=death.modern)
    runtime.node.sandboxes = {sandbox.id: copied(sandbox) for sandbox in death.sandboxes}
    runtime.node.containers = {container.id: copy.copy(container) for container in death.containers}
    runtime.node._ids = cast("itertools.count[int]", copy.copy(death.ids))
    return runtime


def relive(
    death: Death, chance: Chance, parts: Parts = AS_THEY_ARE, *, wants: Callable[[str], bool] = lambda point: False
) -> tuple[Death, ...]:
    """Live one afterlife to its end; gives the deaths that are wanted of it in their turn. Raises AssertionError."""
    afterlife = Afterlife(death, chance, parts)
    afterlife.wants = lambda point: point.startswith("start: ") and wants(point)
    run_alone(_bounded(afterlife))
    return tuple(afterlife.deaths)


async def _bounded(afterlife: Afterlife) -> None:
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            await afterlife.whole_life()
    except TimeoutError:
        raise AssertionError(f"it takes for ever: {afterlife.log.errors[:2]}") from None
