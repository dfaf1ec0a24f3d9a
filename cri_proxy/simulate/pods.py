"""``Pods``: the simulated kubelet's pods by scenario name, and the pod that a create step defines (uid, QoS class)."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import POD_NAMESPACE_UUID, ContainerRole, ContainerSpec, PodSpec
from cri_proxy.simulate.errors import StepError
from cri_proxy.simulate.scenario.amounts import DeclaredPod, container_spec
from cri_proxy.simulate.scenario.model import Create, NewContainer, Scenario
from policies.base import ContainerKey, QosClass

PodName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A container of a pod as it was last created. ``id`` is the runtime's."""

    spec: ContainerSpec
    id: str
    number: int


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod whose sandbox runs, with its containers in the order of their creation.

    ``asked`` are its containers as the steps ask for them, by name.
    """

    spec: DeclaredPod
    sandbox_id: str
    attempts: tuple[Attempt, ...] = ()
    asked: Mapping[str, NewContainer] = field(default_factory=dict)

    def attempt(self, name: str) -> Attempt | None:
        """Return the container of this name, or None."""
        return next((a for a in self.attempts if a.spec.name == name), None)

    def with_attempt(self, attempt: Attempt) -> "KnownPod":
        """Return the pod with this container, which replaces the one of its name.

        Its spec follows: the kubelet words the pod's sums at each create, with what was resized.
        """
        own = attempt.spec
        spec = replace(self.spec, containers=tuple(own if c.name == own.name else c for c in self.spec.containers))
        if self.attempt(own.name) is None:
            return replace(self, spec=spec, attempts=(*self.attempts, attempt))
        attempts = tuple(attempt if a.spec.name == own.name else a for a in self.attempts)
        return replace(self, spec=spec, attempts=attempts)

    def running(self) -> RunningPod:
        """Return the pod as the kubelet runs it: its containers as they were created or resized last."""
        spec = replace(self.spec, containers=tuple(a.spec for a in self.attempts))
        return RunningPod(spec, self.sandbox_id, tuple((a.spec.name, a.id) for a in self.attempts))

    def without(self, name: str) -> "KnownPod":
        """Return the pod without this container."""
        return replace(self, attempts=tuple(a for a in self.attempts if a.spec.name != name))


@dataclass(frozen=True, slots=True)
class FoundContainer:
    """A container that a step names."""

    name: str  # as the outcome has it
    pod: KnownPod
    attempt: Attempt


def pod_of(create: Create, known: Iterable[PodName]) -> PodName:
    """Return the pod that a create step makes or adds to; without a namespace the only one of that name."""
    if create.namespace is not None:
        return create.namespace, create.pod
    found = pods_named(create.pod, known)
    return found[0] if len(found) == 1 else ("default", create.pod)


def pods_named(reference: str, known: Iterable[PodName]) -> list[PodName]:
    """Return the pods that ``name`` or ``namespace/name`` may mean."""
    namespace, _, name = reference.rpartition("/")
    return [key for key in known if key[1] == name and namespace in ("", key[0])]


class Pods:
    """All pods of the node. A name used in two namespaces is written with its namespace, in results too."""

    def __init__(self, scenario: Scenario) -> None:
        """Find in the scenario the names that several namespaces use."""
        self._pods: dict[tuple[str, str], KnownPod] = {}
        self._made: dict[tuple[str, str], int] = {}
        spaces: dict[str, set[str]] = {}
        for step in scenario.steps:
            if isinstance(step.action, Create):
                spaces.setdefault(step.action.pod, set()).add(step.action.namespace or "")
        # A later create of the same pod may leave the namespace out; that does not count as another one.
        self._ambiguous = {pod for pod, found in spaces.items() if len(found - {""}) > 1}

    def __iter__(self) -> Iterator[KnownPod]:
        return iter(tuple(self._pods.values()))

    def name_of(self, pod: PodSpec, container: str) -> str:
        """Return the container's name in results."""
        return f"{self._pod_name(pod)}/{container}"

    def containers(self) -> Iterator[tuple[str, ContainerKey]]:
        """Yield each container's name in results and its key in the ledger, refused ones too."""
        for pod in self:
            for container in pod.spec.containers:
                yield self.name_of(pod.spec, container.name), ContainerKey(pod.spec.pod_uid, container.name)

    def keys_of(self, names: tuple[str, ...]) -> Iterator[tuple[str, ContainerKey]]:
        """Yield those of ``containers`` that have these names."""
        pods = {name.rpartition("/")[0] for name in names}
        for pod in self:
            if self._pod_name(pod.spec) in pods:
                for container in pod.spec.containers:
                    if (name := self.name_of(pod.spec, container.name)) in names:
                        yield name, ContainerKey(pod.spec.pod_uid, container.name)

    def put(self, pod: KnownPod) -> None:
        """Record this pod as it is now."""
        key = pod.spec.namespace, pod.spec.name
        if key not in self._pods:
            self._made[key] = self._made.get(key, 0) + 1
        self._pods[key] = pod

    def drop(self, pod: KnownPod) -> None:
        """Remove this pod."""
        self._pods.pop((pod.spec.namespace, pod.spec.name), None)

    def named(self, reference: str) -> KnownPod:
        """Return the pod ``name`` or ``namespace/name``. Raises StepError."""
        found = pods_named(reference, self._pods)
        if len(found) == 1:
            return self._pods[found[0]]
        if found:
            name = found[0][1]
            raise StepError(f"pods named {name} are in several namespaces; write namespace/{name}")
        there = ", ".join(self._pod_name(p.spec) for p in self)
        raise StepError(f"there is no pod {reference}; there are {there or 'none'}")

    def container(self, reference: str) -> FoundContainer:
        """Return the container ``pod/name`` or ``namespace/pod/name``. Raises StepError."""
        pod_reference, _, name = reference.rpartition("/")
        pod = self.named(pod_reference)
        attempt = pod.attempt(name)
        if attempt is None:
            there = ", ".join(a.spec.name for a in pod.attempts)
            raise StepError(f"pod {pod_reference} has no container {name}; it has {there or 'none'}")
        return FoundContainer(self.name_of(pod.spec, name), pod, attempt)

    def existing(self, create: Create) -> KnownPod | None:
        """Return the pod that a create step adds to; None when it makes a new one."""
        return self._pods.get(pod_of(create, self._pods))

    def planned(self, create: Create) -> DeclaredPod:
        """Return the pod as this step defines it: a new one, or the known one with more containers."""
        known = self.existing(create)
        qos = create.qos if known is None else known.spec.qos
        if known is not None and known.spec.amounts.are_given:
            qos = None  # the class is the pod's, its containers ask for what they like
        added = tuple(_spec(container, qos) for container in create.containers)
        if known is None:
            namespace = create.namespace or "default"
            return new_pod(create, added, self._made.get((namespace, create.pod), 0))
        names = {c.name for c in added}
        kept = tuple(c for c in known.spec.containers if c.name not in names)
        return replace(known.spec, containers=(*kept, *added))

    def _pod_name(self, pod: PodSpec) -> str:
        return f"{pod.namespace}/{pod.name}" if pod.name in self._ambiguous else pod.name


def _spec(container: NewContainer, qos: QosClass | None) -> ContainerSpec:
    """Return the container; an ephemeral one requests nothing, whatever its pod's class."""
    if container.role is ContainerRole.EPHEMERAL:
        return ContainerSpec(container.name, role=container.role)
    return replace(container_spec(container.name, container.amounts, qos), role=container.role)


def created_pod(create: Create) -> DeclaredPod:
    """Return the pod of a create step by itself, the first one of its name."""
    return new_pod(create, tuple(_spec(container, create.qos) for container in create.containers))


def new_pod(create: Create, containers: tuple[ContainerSpec, ...], made_before: int = 0) -> DeclaredPod:
    """Return the pod of a create step; without a QoS class in the step, it follows from the containers.

    ``made_before``: how many pods of this name there were; each has its own uid, unless the pod is static.
    """
    plain = PodSpec(create.pod, containers, amounts=create.amounts)
    namespace = create.namespace or "default"
    return DeclaredPod(
        create.pod,
        containers,
        namespace=namespace,
        annotations=create.annotations,
        labels=create.labels,
        uid=_uid(f"{namespace}/{create.pod}", made_before, is_static=create.is_static),
        declared_qos=create.qos or plain.qos,
        is_static=create.is_static,
        amounts=create.amounts,
    )


def _uid(name: str, made_before: int, *, is_static: bool) -> str:
    """Return a uid that follows from the name. A static pod's is a hexadecimal hash, as the kubelet's."""
    if is_static:
        return hashlib.sha256(name.encode()).hexdigest()[:32]
    return str(uuid.uuid5(POD_NAMESPACE_UUID, f"{name}/{made_before}" if made_before else name))
