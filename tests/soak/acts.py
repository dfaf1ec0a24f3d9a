"""What happens in a soak, act by act: the kubelet's work on pods, and everything that goes wrong around it.

An act leaves nothing behind but the pods of the slots. An unknown failure is a problem, unless the runtime restarted.
"""

import asyncio
import contextlib
import hashlib
import math
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, guaranteed, resources
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from tests.fakes.random_pods import random_pod
from tests.soak.clients import CoreChannel, Hasty, Tally, get
from tests.soak.grounds import Ground
from tests.soak.rude import BAD_REQUESTS, RUDE_STARTS, be_rude
from tests.testbed.containerd import TASK_LEFT
from tests.testbed.inside import output_of
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

SECONDS: Final = 90.0
"""The longest that anything may take on a machine that has much else to do."""
EXCUSED_SECONDS: Final = 3.0
"""After a restart of the runtime, once every client is connected again: for the daemon's own connections."""
STARTING: Final = ("is in starting state", TASK_LEFT)
EVENTS: Final = RUNTIME + "GetContainerEvents"
POD_UID: Final = "io.kubernetes.pod.uid"


@dataclass(slots=True)
class Slot:
    """A place for one pod, which is replaced again and again."""

    number: int
    pod: RunningPod | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Acts:
    """Everything that can happen. Names are what a phase's script is written in."""

    def __init__(self, ground: Ground, tally: Tally, channels: tuple[CoreChannel, ...]) -> None:
        """``channels`` are those of clients that stay."""
        self.ground = ground
        self.tally = tally
        self.slots = tuple(Slot(number) for number in range(ground.slots))
        self._channels = channels
        self._kubelets = tuple(PodKubelet(channel, ground.node) for channel in channels)
        self.restarts = self._count = 0
        self._excused_until = -math.inf
        self._one_configuration = asyncio.Lock()

    def act(self, name: str) -> Callable[[Random], Coroutine[object, object, None]]:
        found: Callable[[Random], Coroutine[object, object, None]] = getattr(self, name)
        return found

    # Pods.

    async def turnover(self, random: Random) -> None:
        """A pod of a slot is removed and another one run in its place."""
        slot = random.choice(self.slots)
        async with slot.lock:
            await self._replace(slot, random)

    async def fill(self, slot: Slot, random: Random) -> None:
        """Run the first pod of a slot."""
        async with slot.lock:
            await self._replace(slot, random)

    async def _replace(self, slot: Slot, random: Random) -> None:
        kubelet = self._kubelet(random)
        if slot.pod is not None:
            await self._remove(kubelet, slot.pod)
            slot.pod = None
        slot.pod = await self._run(kubelet, lambda: self.ground.spec(slot.number, self._name(f"slot-{slot.number}")))
        await self._live(kubelet, slot.pod, random)

    async def _live(self, kubelet: PodKubelet, pod: RunningPod, random: Random) -> None:
        """What the kubelet asks of a pod that runs; now and then it is resized, and back."""
        container = pod.spec.containers[0]
        container_id = pod.container_id(container.name)
        with self._excused("the pod's calls"):
            await kubelet.status(container_id)
            if random.random() < 0.5:
                await output_of(kubelet, container_id, "/bin/cat", "/proc/self/status")
            if random.random() < 0.2 and container.memory_limit_bytes:
                larger = replace(container, memory_limit_bytes=2 * container.memory_limit_bytes)
                for size in (larger, container):
                    await kubelet.update(container_id, resources(pod.spec, size, self.ground.node))

    async def strange_pod(self, random: Random) -> None:
        """A pod with any annotations, which may be refused; it goes at once."""
        kubelet, spec = self._kubelet(random), replace(random_pod(random, self._name("strange")), namespace="strange")
        try:
            await kubelet.run_pod(spec)
        except (CallFailed, RuntimeUnavailable):
            self.tally.acts["strange_pod failed"] += 1
        await self._clean_up(kubelet, spec)

    async def refused(self, random: Random) -> None:
        """A container that asks for more CPUs than there are."""
        kubelet, spec = self._kubelet(random), PodSpec(self._name("large"), (guaranteed("c", 1_000_000),))
        try:
            await kubelet.run_pod(spec)
            self.tally.problems.append("a container of 1000 CPUs was created")
        except CallFailed:
            self.tally.acts["refused for its size"] += 1
        except RuntimeUnavailable:
            self.tally.acts["refused: runtime away"] += 1
        await self._clean_up(kubelet, spec)

    async def cancelled(self, random: Random) -> None:
        """The caller leaves at any moment of a pod's start."""
        kubelet, spec = self._kubelet(random), self.ground.passing(self._name("cancelled"))
        running = asyncio.get_running_loop().create_task(kubelet.run_pod(spec))
        await asyncio.wait([running], timeout=random.uniform(0, 0.06))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await self._clean_up(kubelet, spec)

    async def expired(self, random: Random) -> None:
        """Calls whose deadline passes while they are held, or while the runtime has them."""
        patient, spec = self._kubelet(random), self.ground.passing(self._name("expired"))
        hasty = PodKubelet(Hasty(self._channel(random), random), self.ground.node)
        try:
            sandbox_id = await patient.run_sandbox(spec)
            await hasty.start(await hasty.create(spec, spec.containers[0], sandbox_id))
        except (CallFailed, RuntimeUnavailable):
            self.tally.acts["expired in time"] += 1
        await self._clean_up(patient, spec)

    async def exits(self, random: Random) -> None:
        """A container ends by itself and is made again in its sandbox, as after a crash."""
        kubelet = self._kubelet(random)
        pod = await self._run(kubelet, lambda: PodSpec(self._name("exits"), (self.ground.spec(1, "").containers[0],)))
        first = pod.container_id("c")

        async def has_exited() -> bool:
            reply = await kubelet.status(first)
            return reply.status.state == pb.CONTAINER_EXITED

        with self._excused("a second attempt"):
            await self.ground.exit(first)
            await until("it has exited", has_exited, seconds=SECONDS)
            again = await kubelet.create(pod.spec, pod.spec.containers[0], pod.sandbox_id, attempt=1)
            await kubelet.remove(first)
            await kubelet.start(again)
        await self._clean_up(kubelet, pod.spec)

    async def odd_orders(self, random: Random) -> None:
        """Starts of nobody, stops and removes again and again, one container twice."""
        kubelet, nobody = self._kubelet(random), f"{random.getrandbits(256):064x}"
        pod = await self._run(kubelet, lambda: PodSpec(self._name("odd"), (self.ground.spec(1, "").containers[0],)))
        container_id = pod.container_id("c")
        for work in (
            kubelet.start(nobody),
            kubelet.start(container_id),
            kubelet.create(pod.spec, pod.spec.containers[0], nobody),
            kubelet.create(pod.spec, pod.spec.containers[0], pod.sandbox_id),
            kubelet.update(nobody, pb.LinuxContainerResources(cpu_shares=100)),
            kubelet.stop(container_id),
            kubelet.stop(container_id),
            kubelet.start(container_id),
            kubelet.remove(container_id),
            kubelet.remove(container_id),
        ):
            try:
                await work
            except (CallFailed, RuntimeUnavailable):
                self.tally.acts["odd call refused"] += 1
        await self._clean_up(kubelet, pod.spec)

    async def drift(self, random: Random) -> None:
        """Somebody else writes a container's cpuset; the daemon puts it back."""
        kubelet = self._kubelet(random)
        pod = await self._run(kubelet, lambda: PodSpec(self._name("drift"), (self.ground.spec(1, "").containers[0],)))
        container_id = pod.container_id("c")
        await self.ground.tamper(container_id)

        async def is_put_back() -> bool:
            shown = {c.container_id: c.cpus for c in (await self.ground.daemon.admin.status()).containers}
            allowed = await self.ground.allowed(container_id)
            return allowed is not None and shown.get(container_id) == allowed.cpus

        with self._excused("an ask of the runtime"):
            await until(f"{pod.spec.name} is put back", is_put_back, seconds=SECONDS)
            self.tally.acts["drift put back"] += 1
        await self._remove(kubelet, pod)

    # Calls that pass.

    async def greet(self) -> None:
        """Every client that stays is connected, also where the runtime's restart had cost it its connection."""
        for kubelet in self._kubelets:
            with self._excused("a greeting"):
                await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)

    async def lists(self, random: Random) -> None:
        """What the kubelet asks every second, and a method that nobody knows."""
        kubelet = self._kubelet(random)
        with self._excused("lists"):
            await kubelet.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
            await kubelet.call("ListPodSandbox", pb.ListPodSandboxRequest(), pb.ListPodSandboxResponse)
            await kubelet.call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
        try:  # containerd 1.6 fails where a container goes meanwhile
            await kubelet.call("ListContainerStats", pb.ListContainerStatsRequest(), pb.ListContainerStatsResponse)
        except (CallFailed, RuntimeUnavailable):
            self.tally.acts["statistics failed"] += 1
        try:
            await kubelet.call("NotYet", pb.VersionRequest(), pb.VersionResponse)
        except (CallFailed, RuntimeUnavailable):
            self.tally.acts["unknown method"] += 1

    async def events(self, random: Random) -> None:
        """A stream that is opened, read for a while, and dropped: by a cancellation, or with its connection."""
        own = CoreChannel(self.ground.daemon.endpoint, self.tally) if random.random() < 0.5 else None
        reading = asyncio.get_running_loop().create_task(_read(own or self._channel(random)))
        await asyncio.wait([reading], timeout=random.choice((0.0, 0.01, 0.1, 0.5)))
        if own is not None and random.random() < 0.5:
            await own.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        if own is not None:
            await own.close()

    async def new_connection(self, random: Random) -> None:
        """A client like crictl: connects, asks, leaves. It may leave while something is under way."""
        client = RuntimeClient(self.ground.daemon.endpoint)
        kubelet = PodKubelet(client, self.ground.node)
        try:
            with self._excused("a new connection"):
                await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
                await kubelet.sandboxes()
            if random.random() < 0.3:
                spec = self.ground.passing(self._name("left"))
                leaving = asyncio.get_running_loop().create_task(kubelet.run_pod(spec))
                await asyncio.wait([leaving], timeout=random.uniform(0, 0.04))
                await client.close()
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)
                await self._clean_up(self._kubelet(random), spec)
        finally:
            await client.close()

    async def rude(self, random: Random) -> None:
        await be_rude(self.ground.directory / "cri-proxy.sock", random, RUDE_STARTS)

    # Around the node.

    async def bad_request(self, random: Random) -> None:
        """The same on the admin socket."""
        await be_rude(self.ground.daemon.admin.path, random, BAD_REQUESTS)

    async def questions(self, random: Random) -> None:
        """What an operator asks."""
        pod = random.choice(self.slots).pod
        await self.ground.daemon.admin.status()
        if pod is not None:
            await self.ground.daemon.admin.explain(pod.spec.name)
        for target in ("/metrics", "/readyz?verbose", "/api/v1/topology", "/api/v1/config"):
            await get(self.ground.daemon.admin.path, target)

    async def reload(self, random: Random) -> None:
        async with self._one_configuration:
            base, *others = self.ground.configurations()
            for text in (random.choice(others), random.choice(("policy: [", "nonsense: 1\n")), base):
                await self._edit(text, by_rename=random.random() < 0.5)

    async def _edit(self, text: str, *, by_rename: bool) -> None:
        if by_rename:
            new = self.ground.config.with_suffix(".new")
            new.write_text(text)
            new.replace(self.ground.config)
        else:
            self.ground.config.write_text(text)
        before = await self._reloads()
        self.ground.daemon.send(signal.SIGHUP)
        wanted = hashlib.sha256(text.encode()).hexdigest()

        async def is_taken_or_rejected() -> bool:
            view = (await self.ground.daemon.admin.status()).configuration
            assert view is not None
            is_rejected = view.last is not None and view.last.outcome == "rejected"
            return await self._reloads() > before and (view.digest == wanted or is_rejected)

        await until("the configuration is looked at", is_taken_or_rejected, seconds=SECONDS)

    async def _reloads(self) -> int:
        view = (await self.ground.daemon.admin.status()).configuration
        return view.applied + view.unchanged + view.rejected if view is not None else 0

    async def restart(self, random: Random) -> None:
        """The runtime ends and comes back under its containers, and every client that stays connects again."""
        self.restarts += 1
        self._excused_until, begun_at = math.inf, time.time()
        await self.ground.restart_runtime()
        for kubelet in self._kubelets:
            await until("a client is connected again", partial(self._reaches_runtime, kubelet), seconds=SECONDS)
        self._excused_until = time.monotonic() + EXCUSED_SECONDS
        self.tally.away.append((begun_at, time.time() + EXCUSED_SECONDS))

    async def _reaches_runtime(self, kubelet: PodKubelet) -> bool:
        with contextlib.suppress(CallFailed, RuntimeUnavailable):
            await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
            return True
        return False

    # Ways to do it.

    def _kubelet(self, random: Random) -> PodKubelet:
        return random.choice(self._kubelets)

    def _channel(self, random: Random) -> CoreChannel:
        return random.choice(self._channels)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    async def _run(self, kubelet: PodKubelet, new_spec: Callable[[], PodSpec]) -> RunningPod:
        """A pod that runs, however often it has to be tried; each time it is another pod."""

        async def attempt() -> RunningPod | None:
            spec = new_spec()
            with self._excused(f"running {spec.name}"):
                return await kubelet.run_pod(spec)
            await self._clean_up(kubelet, spec)
            return None

        return await until("a pod runs", attempt, seconds=SECONDS)

    async def _remove(self, kubelet: PodKubelet, pod: RunningPod) -> None:
        with self._excused(f"removing {pod.spec.name}"):
            for _, container_id in pod.containers:
                await kubelet.stop(container_id)
                await kubelet.remove(container_id)
        await self._clean_up(kubelet, pod.spec)

    async def _clean_up(self, kubelet: PodKubelet, spec: PodSpec) -> None:
        """Remove whatever there is of this pod. What a call that was given up makes later the phase's end removes."""

        async def is_gone() -> bool:
            with self._excused(f"cleaning up {spec.name}"):
                for sandbox_id in await kubelet.sandboxes({POD_UID: spec.pod_uid}):
                    await kubelet.remove_pod(sandbox_id)
                return True
            return False

        await until(f"{spec.name} is removed", is_gone, seconds=SECONDS)

    def _excused(self, what: str) -> "_Excuse":
        return _Excuse(self, what)

    @property
    def is_excused(self) -> bool:
        """Whether calls may fail now, because the runtime is away or has just come back."""
        return time.monotonic() < self._excused_until


class _Excuse:
    """Swallow a failed call that a restart of the runtime or a start under way explains; others are problems."""

    def __init__(self, acts: Acts, what: str) -> None:
        self._acts, self._what = acts, what
        self._was_excused = acts.is_excused
        self._restarts = acts.restarts

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, CallFailed | RuntimeUnavailable):
            return False
        acts = self._acts
        if self._was_excused or acts.is_excused or acts.restarts > self._restarts:
            acts.tally.acts["failed while the runtime was away"] += 1
        elif any(words in str(error) for words in STARTING):
            acts.tally.acts["removed while it started"] += 1
        else:
            acts.tally.problems.append(f"{self._what}: {error}")
        return True


async def _read(channel: CoreChannel) -> None:
    try:
        async for _ in channel.stream(EVENTS, pb.GetEventsRequest().SerializeToString()):
            pass
    except RuntimeUnavailable:
        return
