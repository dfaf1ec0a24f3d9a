"""Random histories in which starts and updates hang, callers give up and come back, and what hung comes alive late.

Told in virtual time: an hour of waiting costs nothing, and a wait without a bound is seen.
"""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.barrier import CLEAR_SECONDS, OWN_CALL_SECONDS
from cri_proxy.node.effects import BACKOFF_SECONDS
from cri_proxy.node.node import POLL_SECONDS
from cri_proxy.node.pending_calls import UPDATE_TIMEOUT_SECONDS
from sysfs.cpuset import CpuSet
from tests.fakes.clock import LoopClock
from tests.fakes.lone_loop import run_alone
from tests.fakes.node_checks import is_replaced
from tests.fakes.rows import confirmed_cpus
from tests.fakes.scripted_runtime import Gate
from tests.fakes.site import Site

START, UPDATE = "StartContainer", "UpdateContainerResources"
STEPS = 80
# A start may bring its own container up to date, twice; each attempt of that has a time limit.
OWN_UPDATE_SECONDS = (len(BACKOFF_SECONDS) + 1) * (UPDATE_TIMEOUT_SECONDS + 1)
LONGEST_SECONDS = 3 * OWN_CALL_SECONDS + 2 * (CLEAR_SECONDS + OWN_UPDATE_SECONDS)
SHAPES = (ContainerSpec("c", cpu_request_mcpu=300), guaranteed("c", 1000), guaranteed("c", 2000), guaranteed("c", 1500))


class Ward(Site):
    """A node whose runtime may not answer, and a kubelet that gives up after a while."""

    def __init__(self, seed: int) -> None:
        super().__init__(rules=Config(on_policy_error="reject"))
        self.clock = LoopClock()  # type: ignore[assignment]  # the same protocol
        self.random = Random(seed)
        self.runtime.starts_outlive_callers = seed % 3 > 0
        self.sandboxes: dict[str, tuple[PodSpec, str]] = {}
        self.attempts: dict[str, int] = {}
        self.gates: list[Gate] = []
        self.starts: dict[asyncio.Task[None], str] = {}  # by the pod: the kubelet does one thing at a time for each
        self.late: list[str] = []  # calls that took longer than any may
        self.steps: tuple[tuple[Callable[[], object], int], ...] = (
            (self.add_pod, 8),
            (self.again, 4),
            (self.let_go, 5),
            (self.remove_pod, 3),
            (self.exit, 3),
            (self.resize, 3),
            (self.hang_updates, 2),
            (self.wait, 8),
            (self.slow_check, 3),
        )

    def check(self) -> None:
        """No container that runs, with a row or without one, is on CPUs that another one has alone."""
        ledger = self.node.context.ledger
        running = [c for c in self.live() if c.running]
        used = {c.id: self.runtime.effective(c.id)[0] for c in running}
        for owner in running:
            row = ledger.holder(owner.id)
            alone = CpuSet()  # what it is promised now, and has been alone on
            if row is not None:
                alone = row.grant.owned & confirmed_cpus(ledger, row.key) & used[owner.id]
            for other in running:  # an earlier attempt of the same container is not another one
                is_same = self.name_of(other.id) == self.name_of(owner.id)
                assert is_same or alone.isdisjoint(used[other.id]), (owner.id, other.id, alone)

    def name_of(self, container_id: str) -> tuple[str, str]:
        container = self.runtime.node.containers[container_id]
        return container.sandbox_id, container.config.metadata.name

    async def step(self) -> None:
        moves, weights = zip(*self.steps, strict=True)
        done = self.random.choices(moves, weights)[0]()
        if asyncio.iscoroutine(done):
            await done
        await asyncio.sleep(0.01)

    def gate(self, method: str, container_id: str) -> None:
        self.gates.append(self.runtime.faults.hang(method, lambda message: container_id.encode() in message))

    async def add_pod(self) -> None:
        name = f"p{len(self.attempts)}"
        spec = PodSpec(name, (self.random.choice(SHAPES),))
        self.attempts[name] = -1
        self.sandboxes[name] = (spec, await self.kubelet.run_sandbox(spec))
        await self.create_and_start(name)

    async def create_and_start(self, name: str) -> None:
        spec, sandbox = self.sandboxes[name]
        self.attempts[name] += 1
        try:
            new = await self.kubelet.create(spec, spec.containers[0], sandbox, attempt=self.attempts[name])
        except CallFailed:
            return
        if hangs := self.random.random() < 0.4:
            self.gate(START, new)
        patience = self.random.choice((2.0, 30.0, 120.0)) if hangs else 10 * LONGEST_SECONDS
        task = asyncio.get_running_loop().create_task(self.start(new, patience))
        self.starts[task] = name
        task.add_done_callback(self.starts.pop)

    async def start(self, container_id: str, patience_seconds: float) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(patience_seconds):
                await self.kubelet.start(container_id)
        except (CallFailed, RuntimeUnavailable, TimeoutError):
            pass
        took = asyncio.get_running_loop().time() - begun
        if took > max(LONGEST_SECONDS, patience_seconds if patience_seconds <= 120.0 else 0.0):
            self.late.append(f"a start took {took} s")

    async def again(self) -> None:
        """The kubelet makes another attempt of a container that does not run."""
        waiting = [
            name
            for name, (_, sandbox) in self.sandboxes.items()
            if name not in self.starts.values() and not any(c.running for c in self.live() if c.sandbox_id == sandbox)
        ]
        if waiting:
            await self.create_and_start(self.random.choice(waiting))

    def let_go(self) -> None:
        if self.gates:
            self.gates.pop(self.random.randrange(len(self.gates))).release()

    async def remove_pod(self) -> None:
        if self.sandboxes:
            _, sandbox = self.sandboxes.pop(self.random.choice(sorted(self.sandboxes)))
            try:
                await self.kubelet.remove_pod(sandbox)
            except CallFailed:
                return

    def exit(self) -> None:
        running = sorted(c.id for c in self.live() if c.running)
        if running:
            self.runtime.exit(self.random.choice(running))

    async def resize(self) -> None:
        running = sorted(c.id for c in self.live() if c.running and self.node.context.ledger.holder(c.id))
        if not running:
            return
        chosen = self.random.choice(running)
        spec = next((spec for spec, sandbox in self.sandboxes.values() if sandbox == self.name_of(chosen)[0]), None)
        if spec is None or not spec.containers[0].cpu_limit_mcpu:
            return
        begun = asyncio.get_running_loop().time()
        larger = pods.resources(spec, guaranteed("c", self.random.choice((1000, 2000, 3000))), self.kubelet.node)
        try:
            async with asyncio.timeout(10 * LONGEST_SECONDS):
                await self.kubelet.update(chosen, larger)
        except (CallFailed, RuntimeUnavailable):
            pass
        except TimeoutError:
            self.late.append("an update had no end")
        if not self.gates and asyncio.get_running_loop().time() - begun > LONGEST_SECONDS:
            self.late.append("an update took too long")

    def hang_updates(self) -> None:
        running = sorted(c.id for c in self.live() if c.running)
        if running:
            self.gate(UPDATE, self.random.choice(running))

    async def wait(self) -> None:
        await asyncio.sleep(self.random.choice((0.1, 1.0, 6.0, 30.0, 200.0)))

    async def slow_check(self) -> None:
        await self.node.resync.check_all("slow check")
        self.node.effects.retry_failed()

    async def come_to_rest(self) -> None:
        """The runtime answers everything; then nothing is under way, and nothing is left of what has gone."""
        self.runtime.faults.clear()
        while self.starts:
            await asyncio.wait(self.starts)
        for _ in range(3):
            await asyncio.sleep(POLL_SECONDS)
            await self.slow_check()
        await self.node.settle()
        self.check()
        held = {row.container_id for row in self.node.context.ledger.active()}
        assert [c.id for c in self.live() if c.id in held and is_replaced(self.runtime, c)] == []
        for _, sandbox in self.sandboxes.values():
            await self.kubelet.remove_pod(sandbox)
        await self.slow_check()
        await self.node.settle()


async def live(seed: int) -> Ward:
    ward = Ward(seed)
    await ward.open(ward.check)
    for _ in range(STEPS):
        await ward.step()
    await ward.come_to_rest()
    return ward


@pytest.mark.parametrize("seed", range(12))
def test_whatever_hangs_no_call_waits_without_bound_and_no_cpu_is_shared(seed: int) -> None:
    ward = run_alone(live(seed))
    assert ward.late == []
    ledger = ward.node.context.ledger
    assert (list(ledger.rows()), len(ledger.starts), len(ward.node.context.tasks)) == ([], 0, 0)
