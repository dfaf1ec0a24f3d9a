"""An embedded runtime that misbehaves as a test says: failures, waits and delays by method name."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from google.protobuf.message import Message

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded import containers
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime, unknown_method
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE, Container, RefusedCall
from cri_proxy.tasks import Tasks
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

# What an older runtime lacks.
NEW = {RUNTIME + name for name in ("CheckpointContainer", "ListMetricDescriptors", "ListPodSandboxMetrics")}
NEW |= {RUNTIME + name for name in ("RuntimeConfig", "UpdatePodSandboxResources", "GetContainerEvents")}


@dataclass(slots=True)
class _Failure:
    code: int
    message: str
    times: int
    after: bool
    matches: Callable[[bytes], bool]


class Gate:
    """Holds calls of one method until it is released."""

    def __init__(self) -> None:
        """Closed from the start."""
        self._waiters: list[asyncio.Future[None]] = []
        self._arrivals: list[asyncio.Future[None]] = []
        self._open = False

    @property
    def waiting(self) -> int:
        """How many calls stand before it now."""
        return sum(not w.done() for w in self._waiters)

    async def entered(self) -> None:
        """Wait until a call stands before it."""
        if not self.waiting:
            arrival = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrival)
            await arrival

    async def wait(self) -> None:
        """Stand before it. Raises what ``abort`` was given."""
        if self._open:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)
        self._arrivals.clear()
        await waiter

    def release(self) -> None:
        """Let all through, later ones too."""
        self._open = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def abort(self, make_error: Callable[[], Exception]) -> None:
        """Fail the calls that stand before it; it stays closed for later ones."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(make_error())
        self._waiters.clear()


def _any(message: bytes) -> bool:
    return True


class Faults:
    """What goes wrong next. Methods are named without service: ``StartContainer``."""

    def __init__(self) -> None:
        """Nothing goes wrong."""
        self._failures: dict[str, list[_Failure]] = {}
        self._gates: dict[str, Gate] = {}
        self._held: list[tuple[str, Callable[[bytes], bool], Gate]] = []
        self._delays_seconds: dict[str, float] = {}
        self._rewrites: dict[str, Callable[[bytes, bytes], bytes]] = {}

    def fail_next(
        self,
        method: str,
        code: int,
        message: str,
        *,
        times: int = 1,
        after: bool = False,
        matches: Callable[[bytes], bool] = _any,
    ) -> None:
        """Answer the next calls with this status. ``after``: they take effect all the same.

        ``matches`` picks the calls by their request message.
        """
        self._failures.setdefault(method, []).append(_Failure(code, message, times, after, matches))

    def block(self, method: str) -> Gate:
        """Hold every call of a method until the gate is released."""
        return self._gates.setdefault(method, Gate())

    def hang(self, method: str, matches: Callable[[bytes], bool]) -> Gate:
        """Hold the calls of a method whose request ``matches`` until the gate is released; others go on."""
        gate = Gate()
        self._held.append((method, matches, gate))
        return gate

    def delay(self, method: str, seconds: float) -> None:
        """Answer calls of a method this much later; 0 ends that."""
        self._delays_seconds[method] = seconds

    def rewrite(self, method: str, change: Callable[[bytes, bytes], bytes]) -> None:
        """Answer calls of a method with what ``change`` makes of the request and the reply."""
        self._rewrites[method] = change

    def rewritten(self, method: str, message: bytes, reply: bytes) -> bytes:
        """Return what is to be answered instead of this reply."""
        change = self._rewrites.get(method.rpartition("/")[2])
        return change(message, reply) if change is not None else reply

    def clear(self) -> None:
        """Nothing goes wrong any more; held calls go on."""
        for gate in self._every_gate():
            gate.release()
        self._failures.clear()
        self._gates.clear()
        self._held.clear()
        self._delays_seconds.clear()
        self._rewrites.clear()

    def check(self, method: str, message: bytes, *, after: bool) -> None:
        """Raise the CallFailed that is due for this call before, or after, it takes effect."""
        due = self._failures.get(method.rpartition("/")[2], [])
        for failure in due:
            if failure.after == after and failure.matches(message):
                failure.times -= 1
                if failure.times <= 0:
                    due.remove(failure)
                raise CallFailed(method, failure.code, failure.message)

    def _every_gate(self) -> list[Gate]:
        return [*self._gates.values(), *(gate for _, _, gate in self._held)]

    async def pause(self, method: str, message: bytes = b"") -> None:
        """Wait as long as this call is to be held. Raises RuntimeUnavailable by ``abort``."""
        name = method.rpartition("/")[2]
        if seconds := self._delays_seconds.get(name):
            await asyncio.sleep(seconds)
        held = (gate for of, matches, gate in self._held if of == name and matches(message))
        if gate := self._gates.get(name) or next(held, None):
            try:
                await gate.wait()
            except RuntimeUnavailable as broken:
                raise RuntimeUnavailable(method, broken.problem) from None

    def abort(self, make_error: Callable[[], Exception]) -> None:
        """Fail every call that is held now."""
        for gate in self._every_gate():
            gate.abort(make_error)


@dataclass(frozen=True, slots=True)
class UpdateCall:
    """One UpdateContainerResources that was accepted: its cpuset fields as text ('' = not set), and all of it."""

    container_id: str
    cpus: str
    mems: str
    message: bytes


class ScriptedRuntime(EmbeddedRuntime):
    """Fails and waits by ``faults``, and keeps the updates that it accepted in ``updates``.

    ``starts_outlive_callers``: a start goes on when its caller has gone; a runtime may as well give it up. ``modern``
    False makes an older one, as containerd 1.6: without container events, resources in the status, and the methods that
    came with or after them.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        modern: bool = True,
        image_names: Sequence[str] = (DEFAULT_IMAGE,),
    ) -> None:
        super().__init__(machine, now_ns=now_ns, image_names=image_names)
        self.modern = modern
        self.faults = Faults()
        self.calls = Counter[str]()  # how often each method was called
        self.starts_outlive_callers = False
        self.updates: tuple[UpdateCall, ...] = ()
        self._starts = Tasks(lambda error: None)  # the caller gets the error, if it still waits

    def _answer(self, served: Mapping[str, Callable[..., Message]], method: str, message: bytes) -> Message:
        self._require_present(method)
        if not self.modern and method in NEW:
            raise CallFailed(method, Code.UNIMPLEMENTED, unknown_method(method).message)
        reply = super()._answer(served, method, message)
        return reply if self.modern else _without_news(reply)

    async def call(self, method: str, message: bytes) -> bytes:
        self.calls[method.rpartition("/")[2]] += 1
        self._require_present(method)
        self.faults.check(method, message, after=False)
        if method.endswith("/StartContainer"):
            reply = await self._start(method, pb.StartContainerRequest.FromString(message))
        else:
            await self.faults.pause(method, message)
            reply = await super().call(method, message)
        if method.endswith("/UpdateContainerResources"):
            request = pb.UpdateContainerResourcesRequest.FromString(message)
            linux = request.linux
            call = UpdateCall(request.container_id, linux.cpuset_cpus, linux.cpuset_mems, message)
            self.updates = (*self.updates, call)
        self.faults.check(method, message, after=True)
        return self.faults.rewritten(method, message, reply)

    async def _start(self, method: str, request: pb.StartContainerRequest) -> bytes:
        """A start that is held has fixed already what the kernel gets, as runc has."""
        try:
            container = containers.begin_start(self.node, request.container_id)
            if self.starts_outlive_callers:
                await asyncio.shield(self._starts.start(self._go_on_starting(method, container), name="start"))
                return b""
            try:
                await self.faults.pause(method, request.SerializeToString())
            finally:
                container.starting = False
            return containers.finish_start(self.node, container).SerializeToString()
        except RefusedCall as refused:
            raise CallFailed(method, refused.code, refused.message) from None

    async def _go_on_starting(self, method: str, container: Container) -> None:
        await self.faults.pause(method, pb.StartContainerRequest(container_id=container.id).SerializeToString())
        containers.finish_start(self.node, container)

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        self.calls[method.rpartition("/")[2]] += 1
        self._require_present(method)
        self.faults.check(method, message, after=False)
        await self.faults.pause(method)
        if method in NEW and not self.modern:
            self._answer({}, method, message)
        async with aclosing(super().stream(method, message)) as replies:  # type: ignore[type-var]  # a generator
            async for reply in replies:
                yield reply

    def go_away(self, problem: str = "connection refused") -> None:
        super().go_away(problem)
        self.faults.abort(lambda: RuntimeUnavailable("", problem))

    def effective(self, container_id: str) -> tuple[CpuSet, NodeSet]:
        """The CPUs and memory nodes that the kernel lets the container use."""
        return self.node.effective(self.node.container(container_id, "failed to find container"))

    def record(self, container_id: str) -> pb.LinuxContainerResources:
        """The resources that the runtime has on record, a copy."""
        copy = pb.LinuxContainerResources()
        copy.CopyFrom(self.node.container(container_id, "failed to find container").record)
        return copy

    def listeners(self) -> int:
        """How many callers follow the container events now."""
        return len(self._followers)


def _without_news(reply: Message) -> Message:
    match reply:
        case pb.StatusResponse():
            reply.ClearField("runtime_handlers")
        case pb.ListContainersResponse():
            for container in reply.containers:
                container.image_id = ""
        case pb.ContainerStatusResponse():
            reply.status.image_id = ""
            reply.status.ClearField("resources")
    return reply
