"""Parse CRI request bytes; turn creates (with device localities, awaited) and updates into placement requests."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from cri_proxy.config.model import Config
from cri_proxy.cri import read_request
from cri_proxy.cri.annotations.cache import AnnotationCache, AnnotationReader
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.cdi.variables import ClaimNotRead
from cri_proxy.cri.claim import with_claim
from cri_proxy.cri.device_claim import with_device_claim
from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.pci_functions import FunctionsByAddress
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_list import is_usable_id
from cri_proxy.errors import UnreadableRequest
from cri_proxy.file_workers import FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.intercept.cdi_devices import CdiDevices, no_devices
from cri_proxy.intercept.locality import Found
from cri_proxy.kubelet.pod_resources import PodResources
from cri_proxy.node.sync.claims import ProofsOf, nothing_proved
from policies.base import Pod, Request
from policies.devices import DEVICE_ALLOCATED

LocalitiesOf = Callable[[pb.ContainerConfig, ToldDevices], Awaitable[Sequence[Found]]]
FunctionsOf = Callable[[Sequence[str]], Awaitable[FunctionsByAddress]]
M = TypeVar("M", bound=Message)


async def no_functions(_: Sequence[str]) -> FunctionsByAddress:
    """Return no PCI function: for a node without files."""
    return {}


def message_of(kind: type[M], data: bytes) -> M:
    """Parse the bytes of a held request. Raises UnreadableRequest: the caller's fault, the runtime refuses them too."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise UnreadableRequest(kind.DESCRIPTOR.name.removesuffix("Request"), str(error)) from error


def id_in(kind: type[pb.CreateContainerResponse] | type[pb.RunPodSandboxResponse], reply: bytes) -> str:
    """Return the id in the runtime's reply, its field 1; '' when there is none that can be one."""
    try:
        message = kind.FromString(reply)
    except DecodeError:
        return ""
    text = message.container_id if isinstance(message, pb.CreateContainerResponse) else message.pod_sandbox_id
    return text if is_usable_id(text) else ""


def restored_ids(reply: bytes) -> tuple[str, ...]:
    """Return the ids in the runtime's reply to RestorePod, without those that cannot be one; () when it is garbage."""
    try:
        restored = pb.RestorePodResponse.FromString(reply).restored_containers
    except DecodeError:
        return ()  # the slow check finds what runs without a grant
    return tuple(each.container_id for each in restored if is_usable_id(each.container_id))


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads requests on one node.

    ``memory_bytes`` is the node's capacity, from which the kubelet computes oom_score_adj. ``localities_of`` returns
    those of a container's devices and mounts, with the places that the kubelet reports, ``pod_resources`` asks it.
    ``config`` are the operator's options, ``cache`` what the node has read of annotations, ``cdi`` the devices that its
    specification files declare. ``functions_of`` returns the PCI functions at addresses, and raises FilesFailed,
    ``proofs_of`` the hardware behind CDI names.
    """

    memory_bytes: int
    config: Config
    localities_of: LocalitiesOf
    pod_resources: PodResources | None = None
    cache: AnnotationCache = field(default_factory=AnnotationCache)
    cdi: CdiDevices = field(default_factory=no_devices)
    functions_of: FunctionsOf = no_functions
    proofs_of: ProofsOf = nothing_proved

    def expect(self, pod: Pod) -> None:
        """Ask the kubelet for the devices of a pod whose sandbox is about to run, so that no container has to wait."""
        if self.pod_resources is not None:
            self.pod_resources.expect(pod)

    async def read_create(
        self, message: pb.CreateContainerRequest, sandbox: pb.PodSandboxConfig
    ) -> read_request.ReadRequest:
        """Return the request of a container that is about to be created in this pod."""
        told = NOTHING_TOLD
        if self.pod_resources is not None:
            pod = read_request.pod_of(sandbox, sandbox_id=message.pod_sandbox_id)
            told = await self.pod_resources.told(pod, message.config.metadata.name)
        found = await self.localities_of(message.config, told)
        localities = [each for each in found if not isinstance(each, str)]
        read = read_request.read_create(
            message,
            sandbox,
            annotations=self._annotations,
            localities=localities,
            node_memory_bytes=self.memory_bytes,
            topology=self.config.topology_manager,
        )
        missing = tuple(each for each in found if isinstance(each, str))
        read = replace(read, missing=missing, told=told)
        if self.config.claims == "honour" and DEVICE_ALLOCATED in sandbox.annotations:
            read = with_device_claim(read, sandbox.annotations, self._annotations.rules)
        return await self._with_claim(read, message.config, sandbox)

    async def _with_claim(
        self, read: read_request.ReadRequest, config: pb.ContainerConfig, sandbox: pb.PodSandboxConfig
    ) -> read_request.ReadRequest:
        """Return the request with the CPUs that were chosen for the container, if any were and are to count."""
        if self.config.claims == "ignore":
            return read
        names = cdi_names(config)
        try:
            variables = await self.cdi.claim_variables(names) if names else ()
        except ClaimNotRead as error:
            # On other CPUs it would go against its driver: refused, and the kubelet tries again.
            return replace(read, refusal=str(error))
        except FilesFailed as error:
            # No device of a kind that is known to bring CPUs: that its file hangs holds up no container.
            problem = admit(f"it is not known whether CPUs were chosen for it: {error}")
            return replace(read, missing=(*read.missing, problem))
        if not variables and RESOURCE_STATUS not in sandbox.annotations:
            return read
        return with_claim(read, variables, sandbox.annotations, self._annotations.rules)

    def read_pod(self, sandbox: pb.PodSandboxConfig) -> Request | None:
        """Return the request of a pod as a whole; None where its topology hints are not merged for the pod.

        They are not where others chose its CPUs, as the pod has them: these are granted whatever the hints.
        """
        topology = self.config.topology_manager
        request = read_request.read_pod(sandbox, annotations=self._annotations, topology=topology)
        if request is None or self.config.claims == "ignore":
            return request
        read = with_claim(read_request.ReadRequest(request), (), sandbox.annotations, self._annotations.rules)
        return request if read.request.claim is None else None

    @property
    def _annotations(self) -> AnnotationReader:
        return AnnotationReader(self.config.creation_rules, self.cache)

    def merge_update(self, request: Request, resources: pb.LinuxContainerResources) -> Request:
        """Return the recorded request as this update changes it."""
        return read_request.merge_update(request, resources, node_memory_bytes=self.memory_bytes)
