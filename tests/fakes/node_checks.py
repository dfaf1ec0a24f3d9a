"""What docs/placement.md promises of a node, compared with what the runtime has, at any moment and once all is settled.

What a container may use is asked of the embedded kernel, not of the ledger. Outside the promise are containers that
we do not pin, and those whose every CPU went offline: the kernel lets them run anywhere until an update reaches them.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.runtime.embedded.state import Container
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, CpuKind
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import confirmed_cpus
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.property import invariants
from tests.property.policy_events import World


def running(runtime: ScriptedRuntime) -> Mapping[str, Container]:
    return {c.id: c for c in runtime.node.containers.values() if c.running}


def pinned(
    runtime: ScriptedRuntime, ledger: Ledger, containers: Iterable[Container] | None = None
) -> Mapping[str, tuple[Row, CpuSet]]:
    """Those whose CPUs are ours to say, and of which the kernel still heeds what was said, by id; of all that run.

    Each with its row, and where the kernel lets it be. This is looked at after every call, so nothing is read twice.
    """
    desired, online, found = ledger.desired(), runtime.node.machine.online, dict[str, tuple[Row, CpuSet]]()
    for container in runtime.node.containers.values() if containers is None else containers:
        row = ledger.holder(container.id) if container.running or containers is not None else None
        wanted = desired.get(row.key) if row is not None else None
        if row is not None and wanted is not None and wanted.cpus is not None:
            own = parsed(container.kernel_cpus)
            if on := own & online if own else online:
                found[container.id] = row, on
    return found


def check_moment(there: Mapping[str, tuple[Row, CpuSet]], ledger: Ledger, allowed: CpuSet) -> None:
    """CPUs that one of those ``pinned`` has alone are in no other's set, and everybody is inside ``allowed``."""
    alone = {container_id: confirmed_cpus(ledger, row.key) & cpus for container_id, (row, cpus) in there.items()}
    everyones = CpuSet.of_masks(cpus.mask for cpus in alone.values())
    assert len(everyones) == sum(len(cpus) for cpus in alone.values()), f"owned twice: {alone}"
    for container_id, (_, cpus) in there.items():
        assert not cpus.mask & ~allowed.mask, f"{container_id} is on {cpus}"
        clash = cpus.mask & everyones.mask & ~alone[container_id].mask
        assert not clash, f"{container_id} ({cpus}) is on {CpuSet(clash)}, which others own"


def has_online_cpus(runtime: ScriptedRuntime, container: Container) -> bool:
    """False where its set has no online member: the kernel then takes the parent's set (cgroup-v2, cpuset.cpus)."""
    own = parsed(container.kernel_cpus)
    return not own or bool(own & runtime.node.machine.online)


@lru_cache(maxsize=1024)
def parsed(text: str) -> CpuSet:
    """A list of CPUs, of which there are few and each is looked at often."""
    return CpuSet.parse(text)


@lru_cache(maxsize=256)
def _mems(text: str) -> NodeSet:
    return NodeSet.parse(text)


def is_replaced(runtime: ScriptedRuntime, container: Container) -> bool:
    """Whether it was created, and its kubelet has made another attempt instead of starting it."""
    name = (container.sandbox_id, container.config.metadata.name)
    attempts = [c for c in runtime.node.containers.values() if (c.sandbox_id, c.config.metadata.name) == name]
    return container.state_name == "CONTAINER_CREATED" and attempts[-1] is not container


def sent_again(rows: Iterable[Row]) -> int:
    """How many updates a restart may send: of containers that had not run, none was known to count; each as it was."""
    return sum(row.state == "created" and row.unconfirmed is not None for row in rows)


def waiting_for_starts(ledger: Ledger) -> frozenset[ContainerKey]:
    """The containers that wait for CPUs on which one may come alive that was not running when the daemon started."""
    may_start = (*ledger.active(), *ledger.remnants())
    presumed = {row.key for row in may_start if ledger.starts.presumed(row) is not None}
    waits_for = {row.key: ledger.waits_for(row) for row in ledger.unmet()} if presumed else {}
    found = frozenset[ContainerKey]()
    while more := {key for key, others in waits_for.items() if key not in found and others & (presumed | found)}:
        found |= more
    return found


class MoveCheck:
    """Every call that takes memory nodes from a running container carries nothing else."""

    def __init__(self, runtime: ScriptedRuntime) -> None:
        self._runtime = runtime
        self._seen = 0
        self._mems: dict[str, NodeSet] = {}

    def look(self) -> None:
        """Look at the calls since the last look, of which there is at most one per container."""
        calls = self._runtime.updates[self._seen :]
        self._seen += len(calls)
        there = self._runtime.node.machine.memory_nodes
        for call in calls:
            own, after = self._mems.get(call.container_id), NodeSet.parse(call.mems)
            # Of a node that is gone nothing is left to move, and no other call is taken before the record has lost it.
            if own is not None and after and call.cpus and (not own or own & there):
                before = own & there or there  # without nodes of its own it can use all of them
                assert before <= after, f"{call.container_id}: {before} to {after} together with CPUs {call.cpus}"
        self._mems = {i: _mems(c.kernel_mems) for i, c in running(self._runtime).items()}


def check_settled(runtime: ScriptedRuntime, ledger: Ledger, options: TopologyAwareOptions) -> None:
    """Nothing is held for nobody, the grants keep the rules, and the kernel has what they say.

    Only what waits for a start from before the daemon's own may be elsewhere.
    """
    waiting = waiting_for_starts(ledger)
    live = {c.id: c for c in runtime.node.containers.values() if c.state_name != "CONTAINER_EXITED"}
    for row in ledger.active():
        assert row.container_id in live, f"{row.key} holds CPUs for nobody"
        assert not is_replaced(runtime, live[row.container_id]), f"{row.key} holds CPUs for an attempt of before"
    for container_id, container in live.items():
        holder = ledger.holder(container_id)
        wanted = ledger.desired().get(holder.key) if holder is not None else None
        if wanted is None or holder is None or holder.grant.kind is CpuKind.PRESERVE:
            continue
        # Without a set of its own it runs on every CPU that is online: where that is what it should have, it is right.
        cpus = CpuSet.parse(container.record.cpuset_cpus) or runtime.node.machine.online
        mems = NodeSet.parse(container.record.cpuset_mems)
        should_be = wanted.cpus
        if should_be is not None and container.state_name == "CONTAINER_CREATED":
            # It has the rest once it runs; what it had before a start hung it keeps.
            should_be -= ledger.starts.spared(holder, should_be, runtime.node.machine) - cpus
        assert holder.key in waiting or should_be in (None, cpus), (
            f"{holder.key} is on {cpus}, and should be on {should_be}"
        )
        assert holder.key in waiting or wanted.mems in (None, mems), (
            f"{holder.key} is on nodes {mems}, and should be on {wanted.mems}"
        )
    invariants.check_world(World(ledger.policy, options, ledger.allocations, ledger.policy.machine))
