"""A node on the embedded runtime for one test, and a policy that can be broken."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import TypeVar

from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from policies.base import (
    Allocations,
    ContainerKey,
    Decision,
    Grant,
    Pinning,
    PoolView,
    Reinstated,
    Rejected,
    Request,
    Update,
)
from policies.options import PolicyOptions
from policies.policy import BetterPlaces, Policy
from sysfs.cpuset import CpuSet
from tests.fakes.clock import LoopClock
from tests.fakes.scripted_runtime import Gate
from tests.fakes.site import Site
from tests.testbed.pod_kubelet import PodKubelet

T = TypeVar("T")
REJECT = Config(on_policy_error="reject", on_store_error="reject")
START = "StartContainer"
SHARES = ContainerSpec("c", cpu_request_mcpu=500)
OWNS_2 = guaranteed("c", 2000)
# It keeps the other socket busy: who owns CPUs is placed where few share them.
BUSY = ContainerSpec("c", cpu_request_mcpu=1500)
# The same after a container as SHARES: with more it would join that one, on the socket with more CPUs.
BUSY_AFTER = ContainerSpec("c", cpu_request_mcpu=1000)
KUBELETS_PATIENCE_SECONDS = 120.0


class FragilePolicy(Policy):
    """Another policy whose methods named in ``broken`` raise."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner.machine, PolicyOptions(inner.machine.online))
        self.name = inner.name
        self._inner = inner
        self.broken: set[str] = set()

    def _check(self, method: str) -> None:
        if method in self.broken or "all" in self.broken:
            raise ZeroDivisionError(f"{method} is broken")

    def decide(self, held: Allocations, request: Request) -> Decision:
        self._check("decide")
        return self._inner.decide(held, request)

    def refused_pod(self, held: Allocations, request: Request) -> Rejected | None:
        self._check("refused_pod")
        return self._inner.refused_pod(held, request)

    def pinnings(self, held: Allocations) -> Mapping[ContainerKey, Pinning]:
        self._check("pinnings")
        return self._inner.pinnings(held)

    def release(self, held: Allocations, container: ContainerKey) -> tuple[Update, ...]:
        return self._inner.release(held, container)

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        self._check("narrowed")
        return self._inner.narrowed(held)

    def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
        self._check("better_places")
        return self._inner.better_places(held, after)

    def after_cold_start(self, held: Allocations, container: ContainerKey) -> tuple[Grant, ...]:
        self._check("after_cold_start")
        return self._inner.after_cold_start(held, container)

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        self._check("reinstate")
        return self._inner.reinstate(held, requests)

    def fallback(self, held: Allocations) -> Pinning:
        self._check("fallback")
        return self._inner.fallback(held)

    def pools(self, held: Allocations) -> tuple[PoolView, ...]:
        return self._inner.pools(held)


def owned(site: Site, container_id: str) -> CpuSet:
    return site.row(container_id).grant.owned


def holders(site: Site) -> set[str]:
    return {row.container_id for row in site.node.context.ledger.active()}


def direct(site: Site) -> PodKubelet:
    """A kubelet that goes past the proxy."""
    return PodKubelet(site.runtime, site.kubelet.node)


def background(work: Awaitable[T]) -> asyncio.Task[T]:
    async def run() -> T:
        return await work

    return asyncio.get_running_loop().create_task(run())


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        for turn in count():
            if condition():
                return
            # What is worked out on a thread takes time and no turns.
            await asyncio.sleep(0 if turn < 100 else 0.001)


async def entered(gate: Gate) -> None:
    async with asyncio.timeout(20):
        await gate.entered()


async def on_loop_time(rules: Config | None = None, policy: Policy | None = None) -> Site:
    """A node whose clock is the loop's."""
    site = Site(policy, rules=rules)
    site.clock = LoopClock()  # type: ignore[assignment]  # the same protocol
    await site.open()
    return site


def of(container_id: str) -> Callable[[bytes], bool]:
    return lambda message: container_id.encode() in message


def now() -> float:
    return asyncio.get_running_loop().time()


async def created(site: Site, name: str, container: ContainerSpec) -> str:
    spec = PodSpec(name, (container,))
    return await site.kubelet.create(spec, container, await site.kubelet.run_sandbox(spec))


async def hanging(site: Site, name: str = "s", spec: ContainerSpec = SHARES) -> tuple[str, Gate, asyncio.Task[None]]:
    """A shared container whose start hangs; the runtime goes on with it when the caller leaves."""
    site.runtime.starts_outlive_callers = True
    container = await created(site, name, spec)
    gate = site.runtime.faults.hang(START, of(container))
    start = background(site.kubelet.start(container))
    await entered(gate)
    return container, gate, start


async def given_up(start: asyncio.Task[None]) -> None:
    await asyncio.sleep(KUBELETS_PATIENCE_SECONDS)
    start.cancel()
    await asyncio.wait([start])


def is_alone(site: Site, owner: str) -> bool:
    """Whether no other container that runs can use what this one owns."""
    others = (CpuSet.parse(site.cpus(c.id)) for c in site.live() if c.running and c.id != owner)
    return all(cpus.isdisjoint(owned(site, owner)) for cpus in others)
