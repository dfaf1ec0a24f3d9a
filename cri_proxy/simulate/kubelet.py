"""Carry out a scenario's pod steps as a kubelet, by CRI calls: create, stop, restart, resize, remove; keep refusals."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import (
    GRACE_SECONDS,
    ContainerRole,
    ContainerSpec,
    create_request,
    resources,
    sandbox_config,
)
from cri_proxy.errors import CallFailed
from cri_proxy.simulate.errors import StepError
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.pods import Attempt, FoundContainer, KnownPod, Pods
from cri_proxy.simulate.scenario.amounts import DeclaredPod, resized
from cri_proxy.simulate.scenario.devices import attach
from cri_proxy.simulate.scenario.model import Create, Delete, NewContainer, OnContainer, OnPods, Resize

_STATIC = {"kubernetes.io/config.source": "file"}


class SimulatedKubelet:
    """Carries out the steps on pods; ``refused`` has the refusals of the current step by container."""

    def __init__(self, simulated: SimulatedNode, pods: Pods, is_live: Callable[[Attempt], bool]) -> None:
        """``is_live`` returns whether this attempt was created or running after the last step."""
        self._simulated = simulated
        self._pods = pods
        self._is_live = is_live
        self.refused: dict[str, str] = {}

    async def carry_out(self, action: OnPods) -> str:
        """Carry out a step; return '' or the refusal. Raises CallFailed, RuntimeUnavailable and StepError."""
        match action:
            case Create():
                return await self._create(action)
            case OnContainer():
                await self._on_container(action)
            case Resize():
                return await self._update(action)
            case Delete():
                pod = self._pods.named(action.pod)
                await self._simulated.kubelet.remove_pod(pod.sandbox_id, grace_seconds=GRACE_SECONDS)
                self._pods.drop(pod)
            case _:
                assert_never(action)
        return ""

    async def _create(self, create: Create) -> str:
        """Create the sandbox if it is new, then the containers one by one; a refused one does not stop the others."""
        known = self._pods.existing(create)
        for container in create.containers:
            self._require_new(create, container, known)
        spec = self._pods.planned(create)
        if known is None:
            known = KnownPod(spec, await self._run_sandbox(spec))
        asked = {**known.asked, **{c.name: c for c in create.containers}}
        # Before its containers are created, which are looked up by the pod.
        self._pods.put(replace(known, spec=spec, asked=asked))
        errors = {}
        for container in create.containers:
            name = self._pods.name_of(spec, container.name)
            error = await self._try_to_run(spec, container)
            if error:
                errors[container.name] = self.refused[name] = error
        if len(create.containers) == 1:
            return "".join(errors.values())
        return "; ".join(f"{name}: {error}" for name, error in errors.items())

    def _require_new(self, create: Create, container: NewContainer, known: KnownPod | None) -> None:
        """Raise StepError for a container that runs already, or a device that the machine lacks."""
        earlier = known.attempt(container.name) if known is not None else None
        if earlier is not None and self._is_live(earlier):
            raise StepError(f"{create.pod}/{container.name} runs already; use restart-container or another name")
        there = [known.address for known in self._simulated.machine.devices]
        missing = [device.address for device in container.attachments if device.address and device.address not in there]
        if missing:
            raise StepError(f"the machine has no device {missing[0]}; it has {', '.join(there) or 'none'}")

    async def _run_sandbox(self, spec: DeclaredPod) -> str:
        kubelet = self._simulated.kubelet
        config = sandbox_config(spec, kubelet.node)
        _mark_static(spec, config)
        return await kubelet.run_sandbox_as(config)

    async def _try_to_run(self, spec: DeclaredPod, container: NewContainer) -> str:
        """Create and start a container; return '' or the refusal. An init container ends at once, without an event."""
        pod = self._pods.named(f"{spec.namespace}/{spec.name}")
        planned = next(c for c in spec.containers if c.name == container.name)
        try:
            container_id = await self._run(pod, planned)
        except CallFailed as error:
            return error.message
        if container.role is ContainerRole.INIT:
            self._simulated.runtime.exit(container_id)
        return ""

    async def _run(self, pod: KnownPod, spec: ContainerSpec) -> str:
        """Run the next attempt of this container and return its id; then remove the earlier one, as kubelets do."""
        kubelet = self._simulated.kubelet
        earlier = pod.attempt(spec.name)
        number = earlier.number + 1 if earlier is not None else 0
        request = create_request(pod.spec, spec, pod.sandbox_id, node=kubelet.node, attempt=number)
        _mark_static(pod.spec, request.sandbox_config)
        asked = pod.asked[spec.name]
        self._simulated.devices.add(asked.attachments)
        attach(request.config, asked.attachments)
        request.config.linux.resources.cpuset_cpus = str(asked.cpuset_cpus)
        container_id = await kubelet.create_as(request)
        # Before the start: a container whose start is refused exists all the same.
        self._pods.put(pod.with_attempt(Attempt(spec, container_id, number)))
        await kubelet.start(container_id)
        if earlier is not None:
            await kubelet.remove(earlier.id)
        return container_id

    async def _on_container(self, action: OnContainer) -> None:
        match action.what:
            case "stop":
                found = self._pods.container(action.container)
                await self._simulated.kubelet.stop(found.attempt.id)
                await self._simulated.kubelet.remove(found.attempt.id)
                self._pods.put(found.pod.without(found.attempt.spec.name))
            case "exit":
                self._simulated.runtime.exit(self.live(action.container).attempt.id)
                await self._simulated.notice_exits()
            case "restart-container":
                await self._restart(self._pods.container(action.container))

    async def _restart(self, found: FoundContainer) -> None:
        if self._is_live(found.attempt):
            self._simulated.runtime.exit(found.attempt.id)
        try:
            await self._run(found.pod, found.attempt.spec)
        except CallFailed as error:
            self.refused[found.name] = error.message
            raise

    async def _update(self, update: Resize) -> str:
        found = self.live(update.container)
        spec = resized(found.attempt.spec, update.amounts, found.pod.spec.qos)
        # The API server refuses it, so that no kubelet gets it.
        if spec.cpu_limit_mcpu and spec.cpu_request_mcpu > spec.cpu_limit_mcpu:
            return f"a request of {spec.cpu_request_mcpu}m is more than the limit of {spec.cpu_limit_mcpu}m"
        kubelet = self._simulated.kubelet
        change = found.pod.with_attempt(replace(found.attempt, spec=spec))
        try:
            # A set of CPUs alone, as of the kubelet's CPU manager, is no resize: it is sent by itself.
            if not await kubelet.resize(found.pod.running(), change.running().spec, str(update.cpuset_cpus)):
                linux = resources(found.pod.spec, spec, kubelet.node)
                linux.cpuset_cpus = str(update.cpuset_cpus)
                await kubelet.update(found.attempt.id, linux)
        except CallFailed as error:
            self.refused[found.name] = error.message
            raise
        self._pods.put(change)
        return ""

    def live(self, reference: str) -> FoundContainer:
        """Return the container ``pod/name`` or ``namespace/pod/name``, which has not ended. Raises StepError."""
        found = self._pods.container(reference)
        if not self._is_live(found.attempt):
            raise StepError(f"{found.name} has ended; restart-container starts it again")
        return found


def _mark_static(spec: DeclaredPod, config: pb.PodSandboxConfig) -> None:
    """Add the annotations that the kubelet gives to the sandbox of a static pod."""
    if spec.is_static:
        config.annotations.update(_STATIC | {"kubernetes.io/config.hash": spec.pod_uid})
