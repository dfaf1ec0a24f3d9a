"""Read every container's state after a step: from runtime, kernel and ledger, with reasons and reason codes."""

from collections.abc import Iterable
from pathlib import Path

from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.write import RESOURCE_FILES
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.resource_files.directories import SHELL
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.outcome import ContainerState
from cri_proxy.simulate.pods import Attempt, KnownPod, Pods
from cri_proxy.state.device_words import device_words
from policies.base import ContainerKey, Grant
from sysfs.cpuset import CpuSet, NodeSet

_STATES = {pb.CONTAINER_CREATED: "created", pb.CONTAINER_RUNNING: "running"}


def container_states(simulated: SimulatedNode, pods: Pods) -> dict[str, ContainerState]:
    """Return every container that exists, by name, sorted."""
    pools = simulated.policy.pools(simulated.node.context.ledger.allocations)
    reserved = pools[0].reserved if pools else CpuSet()
    seen = {
        pods.name_of(pod.spec, attempt.spec.name): _container_state(simulated, pod, attempt, reserved)
        for pod in pods
        for attempt in pod.attempts
    }
    return {name: seen[name] for name in sorted(seen)}


def _container_state(simulated: SimulatedNode, pod: KnownPod, attempt: Attempt, reserved: CpuSet) -> ContainerState:
    container = simulated.runtime.node.containers.get(attempt.id)
    state = _STATES.get(container.state, "exited") if container is not None else "exited"
    if container is None or state == "exited":
        return ContainerState(attempt.id, state)
    record = container.record
    cpus, mems = CpuSet.parse(record.cpuset_cpus), NodeSet.parse(record.cpuset_mems)
    grant = _grant(simulated, ContainerKey(pod.spec.pod_uid, attempt.spec.name), attempt.id)
    owned = grant.owned if grant is not None else CpuSet()
    kernel_cpus, kernel_mems = simulated.runtime.node.effective(container)
    return ContainerState(
        attempt.id,
        state,
        cpus,
        mems,
        exclusive=grant.exclusive if grant is not None else CpuSet(),
        isolated=grant.isolated if grant is not None else CpuSet(),
        shared=cpus - owned - reserved,
        reserved=(cpus - owned) & reserved,
        shared_mcpu=grant.shared_mcpu if grant is not None else 0,
        pool=grant.pool if grant is not None else "",
        kind=grant.kind.value if grant is not None else "",
        kernel_cpus=kernel_cpus,
        kernel_mems=kernel_mems,
        cpu_shares=record.cpu_shares,
        cpu_quota=max(0, record.cpu_quota),
        overcommitted=grant is not None and grant.is_overcommitted,
        pod_cpus=grant is not None and grant.shares_cpus,
        devices=device_words(grant) if grant is not None else (),
        resource_variables=_resource_variables(container.config.mounts),
    )


def _resource_variables(mounts: Iterable[pb.Mount]) -> dict[str, str]:
    """Return the values in the container's ``resources.sh``, by variable."""
    root = next((Path(mount.host_path) for mount in mounts if mount.container_path == RESOURCE_FILES), None)
    if root is None:
        return {}
    pairs = (line.partition("=") for line in (root / SHELL).read_text().splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


def _grant(simulated: SimulatedNode, key: ContainerKey, container_id: str) -> Grant | None:
    row = simulated.node.context.ledger.get(key)
    held = row is not None and row.state in ACTIVE and row.container_id == container_id
    return row.grant if row is not None and held else None


def codes_of(simulated: SimulatedNode, pods: Pods) -> dict[str, tuple[str, ...]]:
    """Return the reason codes of the last decision about every container, refused ones too, by name."""
    records = ((name, simulated.journal.records.get(key)) for name, key in pods.containers())
    return {name: tuple(r.code for r in record.reasons) for name, record in records if record is not None}


def reasons_for(simulated: SimulatedNode, key: ContainerKey) -> tuple[str, ...]:
    """Return its annotations without effect, and the reasons of the last decision."""
    record = simulated.journal.records.get(key)
    if record is None:
        return ()
    idle = (f"annotation {key}: known, without effect yet" for key in without_effect(record.request.origins))
    failed = (f"not created: {record.failure}",) if record.failure else ()
    return (*record.problems, *failed, *idle, *(reason.text for reason in record.reasons))
