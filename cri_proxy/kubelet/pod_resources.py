"""Ask the kubelet's pod resources API once per pod, early; containers wait a second at most for the answer.

The kubelet allocates a pod's devices, and has its claims prepared, before it asks for the sandbox. An answer that does
not come in time, or does not parse, counts as none: it must not keep a container from starting.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice

from google.protobuf.message import DecodeError, Message

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.cri.annotations.device_filter import POD_RESOURCES
from cri_proxy.cri.device_names.names import (
    MAX_NAMES,
    NOTHING_TOLD,
    AllocatedDevices,
    DeviceName,
    ToldDevices,
    pci_address_in_label,
)
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.file_workers import FilesFailed
from cri_proxy.http2.status import Code
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.tasks import Tasks
from policies.base import DeviceLocality, Pod
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet, NodeSet

SERVICE = "/v1.PodResourcesLister/"
SOCKET = "pod-resources/kubelet.sock"  # below the kubelet's root directory
BUDGET_SECONDS = 1.0  # for all queries about one pod
# After a query without an answer the kubelet is not queried for this long.
SILENCE_SECONDS = 30.0
ANSWER_SECONDS = 5.0  # for a question that no container waits for
KEPT_PODS = 512

NOTHING = pb.PodResources()


class PodResources:
    """Query the kubelet once per pod; a pod that was not announced is queried when a container needs the answer."""

    def __init__(
        self,
        channel: RuntimeChannel,
        clock: Clock,
        journal: Journal,
        *,
        known: Callable[[], NodeSet],
        look: Callable[[], Awaitable[object]] | None = None,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> None:
        """``channel`` leads to the kubelet; ``known`` returns the machine's NUMA nodes as they are.

        ``look`` is awaited before each query: it raises FilesFailed where the socket's directory hangs, since
        connect(2) would then hold the event loop.
        """
        self._look = look
        self._looking: asyncio.Task[None] | None = None
        self._unseen: FilesFailed | None = None  # why the last look saw nothing
        self._budget_seconds = budget_seconds
        self._channel = channel
        self._clock = clock
        self._journal = journal
        self._known = known
        self._asking: dict[str, asyncio.Task[None]] = {}
        # Encoded ``PodResources``, the latest last: as messages they would take twenty times the memory.
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._tasks = Tasks(lambda error: journal.failed_open("pod resources", error))
        self._silent_until_seconds = 0.0
        self._is_reported = False
        self._offers_get = True
        self.has_missed = False
        """Whether containers were created without its answer since it last answered about all of them."""

    def expect(self, pod: Pod) -> None:
        """Ask about a pod whose sandbox is about to be made: its containers follow."""
        self._ask(pod)

    async def told(self, pod: Pod, container: str) -> ToldDevices:
        """Return the container's devices by the kubelet; nothing if it has not answered in time."""
        task = self._asking.get(pod.uid)
        if task is None and pod.uid not in self._answers:
            task = self._ask(pod)
        if task is not None:
            # Not ``await task``: a caller that leaves would cancel the question of the pod's other containers.
            await asyncio.wait([task])  # it ends within the budget
        answer = self._answers.get(pod.uid)
        if answer is None:
            return NOTHING_TOLD
        return told_devices(pb.PodResources.FromString(answer), container, self._known())

    async def of_all(self) -> Mapping[ContainerName, ToldDevices]:
        """Return its answer about all containers, for a question that no container waits for; empty without one.

        It tells no uid: of a pod that ends while the next of its name begins, nothing is returned of either.
        """
        # Before the question: a container that gets no answer while it is under way is for the next one.
        self.has_missed = False
        try:
            listed = await self._listed(ANSWER_SECONDS)
        except (CallFailed, RuntimeUnavailable, FilesFailed, DecodeError):
            self.has_missed = True  # that it is away is reported where containers wait for it
            return {}
        known, self._silent_until_seconds = self._known(), 0.0
        counts = Counter((pod.namespace, pod.name) for pod in listed.pod_resources)
        return {
            ContainerName(pod.namespace, pod.name, each.name): told_devices(pod, each.name, known)
            for pod in listed.pod_resources
            if counts[pod.namespace, pod.name] == 1
            for each in pod.containers
        }

    async def close(self) -> None:
        """Cancel what is under way."""
        await self._tasks.cancel()
        await self._channel.close()

    def _ask(self, pod: Pod) -> asyncio.Task[None] | None:
        if self._clock.monotonic_seconds() < self._silent_until_seconds:
            self.has_missed = True
            return None
        task = self._asking[pod.uid] = self._tasks.start(self._learn(pod), name=f"pod resources {pod.name}")
        task.add_done_callback(
            lambda done: self._asking.pop(pod.uid, None) if self._asking.get(pod.uid) is done else None
        )
        return task

    async def _learn(self, pod: Pod) -> None:
        try:
            async with asyncio.timeout(self._budget_seconds):
                answer = await self._resources_of(pod)
        except (CallFailed, RuntimeUnavailable, FilesFailed, TimeoutError, DecodeError) as error:
            self.has_missed = True
            self._silent_until_seconds = self._clock.monotonic_seconds() + SILENCE_SECONDS
            if not self._is_reported:
                # The error of the channel speaks of a runtime, and this is the kubelet.
                why = (
                    f"the kubelet does not answer: {error.problem}"
                    if isinstance(error, RuntimeUnavailable)
                    else str(error) or "no answer in time"
                )
                self._journal.noted(events.POD_RESOURCES_AWAY, reason=why)
            self._is_reported = True
            return
        self._is_reported = False
        self._answers[pod.uid] = answer.SerializeToString()
        self._answers.move_to_end(pod.uid)
        if len(self._answers) > KEPT_PODS:
            self._answers.popitem(last=False)

    async def _resources_of(self, pod: Pod) -> pb.PodResources:
        """Ask by Get; where the kubelet does not offer it (a feature gate), by List."""
        if self._offers_get:
            wanted = pb.GetPodResourcesRequest(pod_name=pod.name, pod_namespace=pod.namespace)
            try:
                answer = await self._call("Get", wanted, self._budget_seconds)
                return pb.GetPodResourcesResponse.FromString(answer).pod_resources
            except CallFailed as error:
                # A kubelet whose gate is closed says so with status UNKNOWN; other refusals are about this pod.
                self._offers_get = not (error.code == Code.UNIMPLEMENTED or "disabled" in error.message)
        listed = await self._listed(self._budget_seconds)
        found = (p for p in listed.pod_resources if (p.name, p.namespace) == (pod.name, pod.namespace))
        return next(found, NOTHING)

    async def _listed(self, within_seconds: float) -> pb.ListPodResourcesResponse:
        answer = await self._call("List", pb.ListPodResourcesRequest(), within_seconds)
        return pb.ListPodResourcesResponse.FromString(answer)

    async def _call(self, method: str, message: Message, within_seconds: float) -> bytes:
        await self._looked()
        return await self._channel.unary(SERVICE + method, message.SerializeToString(), timeout_seconds=within_seconds)

    async def _looked(self) -> None:
        """Look, once for all who ask meanwhile: pods come in crowds, and each look is a turn of a helper process."""
        if self._look is None:
            return
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.start(self._look_for_all(self._look), name="pod resources")
        # Not ``await``: a caller whose budget ends would cancel the look of the others.
        await asyncio.wait([self._looking])
        if self._unseen is not None:
            raise self._unseen

    async def _look_for_all(self, look: Callable[[], Awaitable[object]]) -> None:
        self._unseen = None
        try:
            await look()
        except FilesFailed as error:
            self._unseen = error


def told_devices(pod: pb.PodResources, container: str, known: NodeSet) -> ToldDevices:
    """Return its answer about this container: devices of resources, with places by group, and devices of its claims.

    ``known`` are the machine's nodes: devices on other nodes, or on all of them, have no place. Of claims MAX_NAMES
    devices count. The places are sorted by source, and the claims' devices stand in the kubelet's order.
    """
    held = [resources for resources in pod.containers if resources.name == container]
    places = sorted(_places(held, known), key=lambda group: group.place.source)
    claimed = tuple(islice(_claimed(held), MAX_NAMES))
    in_labels = ((pci_address_in_label(device.device_name), via) for device, via in claimed)
    addresses = tuple(DeviceName("pci", address, via) for address, via in in_labels if address is not None)
    cdi = ((name.name, via) for device, via in claimed for name in device.cdi_devices)
    return ToldDevices(tuple(places), addresses, tuple(islice(cdi, MAX_NAMES)), tuple(_allocated(held)), bool(held))


def _places(held: list[pb.ContainerResources], known: NodeSet) -> Iterator[AllocatedDevices]:
    """Yield groups of devices whose plugin has given NUMA nodes."""
    present = set(known)  # a plugin may name any number: only known ones are made into a set
    for devices in (group for resources in held for group in resources.devices):
        nodes = NodeSet.of(node.ID for node in devices.topology.nodes if node.ID in present)
        if nodes and nodes != known:
            ids = tuple(sorted(devices.device_ids))
            # The source is the resource and its devices, ``podresapi:example.com/nic/0,1``.
            source = f"{POD_RESOURCES}{devices.resource_name}/{','.join(ids)}"
            yield AllocatedDevices(DeviceLocality(source, CpuSet(), nodes), ids)


def _allocated(held: list[pb.ContainerResources]) -> Iterator[str]:
    """Yield each device that a plugin has offered, RESOURCE/ID."""
    for devices in (group for resources in held for group in resources.devices):
        yield from (f"{devices.resource_name}/{name}" for name in devices.device_ids)


def _claimed(held: list[pb.ContainerResources]) -> Iterator[tuple[pb.ClaimResource, str]]:
    """Yield each device of a claim with what it is called, ``podresapi:DRIVER/POOL/DEVICE``."""
    for claim in (claim for resources in held for claim in resources.dynamic_resources):
        for device in claim.claim_resources:
            words = filter(None, (device.driver_name, device.pool_name, device.device_name))
            yield device, POD_RESOURCES + ("/".join(words) or f"{claim.claim_namespace}/{claim.claim_name}")
