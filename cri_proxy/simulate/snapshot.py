"""Read every container's state after a step: from runtime, kernel and ledger, with reasons and reason codes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.write import RESOURCE_FILES
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.resource_files.directories import SHELL
from cri_proxy.runtime.embedded.state import Container, cpu_list, node_list
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.outcome import ContainerState
from cri_proxy.simulate.pods import Attempt, KnownPod, Pods
from cri_proxy.state.rows import Row
from policies.base import ContainerKey
from policies.device_grants import device_words
from policies.policy import Policy
from sysfs.cpuset import CpuSet
from sysfs.model import Machine

_STATES = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running"}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A container as it was read: while all that its state is made of is the same, the state is."""

    name: str
    key: ContainerKey
    values: tuple[object, ...]
    row: Row | None
    state: ContainerState


class ContainerStates:
    """Reads every container's state, by name, sorted; one of which nothing has changed keeps its value."""

    def __init__(self, simulated: SimulatedNode, pods: Pods) -> None:
        """Read the pods of this node."""
        self._simulated = simulated
        self._pods = pods
        self._on: tuple[Machine, Policy] | None = None
        self._reserved = CpuSet()
        self._known: dict[str, _Seen] = {}

    def read(self) -> dict[str, ContainerState]:
        """Return every container that exists."""
        machine, policy = self._simulated.machine, self._simulated.policy
        if self._on is None or self._on[0] is not machine or self._on[1] is not policy:
            pools = policy.pools(self._simulated.node.context.ledger.allocations)
            self._reserved = pools[0].reserved if pools else CpuSet()
            self._on, self._known = (machine, policy), {}
        before, self._known = self._known, {}
        containers, row_of = self._simulated.runtime.node.containers, self._simulated.node.context.ledger.get
        for pod in self._pods:
            for attempt in pod.attempts:
                seen, container = before.get(attempt.id), containers.get(attempt.id)
                if seen is None or row_of(seen.key) is not seen.row or _values(container) != seen.values:
                    seen = self._read(pod, attempt)
                self._known[attempt.id] = seen
        return {seen.name: seen.state for seen in sorted(self._known.values(), key=lambda seen: seen.name)}

    def _read(self, pod: KnownPod, attempt: Attempt) -> _Seen:
        container = self._simulated.runtime.node.containers.get(attempt.id)
        key = ContainerKey(pod.spec.pod_uid, attempt.spec.name)
        name = self._pods.name_of(pod.spec, attempt.spec.name)
        row = self._simulated.node.context.ledger.get(key)
        return _Seen(name, key, _values(container), row, self._state(attempt.id, container, row))

    def _state(self, attempt_id: str, container: Container | None, row: Row | None) -> ContainerState:
        state = _STATES.get(container.state, "exited") if container is not None else "exited"
        if container is None or state == "exited":
            return ContainerState(attempt_id, state)
        record = container.record
        is_held = row is not None and row.state in ACTIVE and row.container_id == attempt_id
        grant = row.grant if row is not None and is_held else None
        cpus, mems = cpu_list(record.cpuset_cpus), node_list(record.cpuset_mems)
        owned = grant.owned if grant is not None else CpuSet()
        kernel_cpus, kernel_mems = self._simulated.runtime.node.effective(container)
        return ContainerState(
            attempt_id,
            state,
            cpus,
            mems,
            exclusive=grant.exclusive if grant is not None else CpuSet(),
            isolated=grant.isolated if grant is not None else CpuSet(),
            shared=cpus - owned - self._reserved,
            reserved=(cpus - owned) & self._reserved,
            shared_mcpu=grant.shared_mcpu if grant is not None else 0,
            pool=grant.pool if grant is not None else "",
            kind=grant.kind.value if grant is not None else "",
            kernel_cpus=kernel_cpus,
            kernel_mems=kernel_mems,
            cpu_shares=record.cpu_shares,
            cpu_quota=max(0, record.cpu_quota),
            overcommitted=grant is not None and grant.is_overcommitted,
            pod_cpus=grant is not None and grant.shares_cpus,
            devices=device_words(grant.devices) if grant is not None else (),
            resource_files=_resource_files(container.config.mounts),
        )


def _values(container: Container | None) -> tuple[object, ...]:
    """Return what changes of a container, as far as its state depends on it."""
    if container is None:
        return ()
    return container.state, container.record, container.kernel_cpus, container.kernel_mems


def _resource_files(mounts: Iterable[pb.Mount]) -> Path | None:
    """Return the directory of the container's resource files on the host."""
    return next((Path(mount.host_path) for mount in mounts if mount.container_path == RESOURCE_FILES), None)


def resource_variables(seen: ContainerState) -> dict[str, str]:
    """Return the values in the container's ``resources.sh``, by variable; none without the file."""
    if seen.resource_files is None:
        return {}
    pairs = (line.partition("=") for line in (seen.resource_files / SHELL).read_text().splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


class ReasonCodes(Mapping[str, tuple[str, ...]]):
    """The reason codes of the last decision about every container, refused ones too, by name; read when asked for.

    A decision is kept packed: to unpack all of them after every step would cost more than all decisions together.
    """

    def __init__(self, simulated: SimulatedNode, pods: Pods) -> None:
        """Read the journal of this node."""
        self._records = simulated.journal.records
        self._keys = dict(pods.containers())

    def __getitem__(self, name: str) -> tuple[str, ...]:
        record = self._records.get(self._keys[name])
        if record is None:
            raise KeyError(name)
        return tuple(reason.code for reason in record.reasons)

    def __iter__(self) -> Iterator[str]:
        return (name for name, key in self._keys.items() if self._records.get(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def reasons_for(simulated: SimulatedNode, key: ContainerKey) -> tuple[str, ...]:
    """Return its annotations without effect, and the reasons of the last decision."""
    record = simulated.journal.records.get(key)
    if record is None:
        return ()
    idle = (f"annotation {key}: known, without effect yet" for key in without_effect(record.request.origins))
    failed = (f"not created: {record.failure}",) if record.failure else ()
    return (*record.problems, *failed, *idle, *(reason.text for reason in record.reasons))
