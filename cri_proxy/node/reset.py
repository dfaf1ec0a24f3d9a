"""``cri-proxy reset``: widen live containers to all CPUs and nodes, drop saved rows, correct resource files; dry run.

For the uninstallation, while no daemon runs. An empty set would mean "no change" to the runtime, so explicit lists
name everything. What an annotation preserved (``cpu.preserve``, ``memory.preserve``) stays as it is. systemd's units of
the containers are widened too, where runc has not done so (``node.drift.scope_unit``).
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cri_proxy.cri.grant_text import GrantTextError, grant_parts_from_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_status import read_status
from cri_proxy.cri.write import update_request
from cri_proxy.errors import CallFailed, RuntimeUnavailable, UnreadableReply
from cri_proxy.http2.status import Code
from cri_proxy.node.drift.scope_unit import ScopeUnits
from cri_proxy.node.effects import UPDATE
from cri_proxy.node.pending_calls import UPDATE_TIMEOUT_SECONDS
from cri_proxy.node.resource_files import directories
from cri_proxy.node.resource_files.contents import machine_sets, unpinned_resources
from cri_proxy.node.sync import runtime_state
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.rows import GrantStore, Row
from policies.base import ContainerKey, CpuKind, Pinning
from policies.container_name import ContainerName
from policies.device_grants import device_words
from sysfs.cpuset import CpuSet
from sysfs.model import Machine

# Enough to hide the runtime's latency, few enough not to flood it.
CONCURRENT = 8


Outcome = Literal["widened", "would widen", "wide already", "opted out", "gone", "refused"]


@dataclass(frozen=True, slots=True)
class ResetContainer(ContainerName):
    """One container: ``before`` as the runtime had it, ``after`` as it has it now, or would have it.

    A field of None is not on record at the runtime: no limit. ``problem`` is the runtime's word for a refusal, or
    why systemd still has other sets of a container that is widened.
    """

    container_id: str
    outcome: Outcome
    before: Pinning
    after: Pinning
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ResetReport:
    """The containers' outcomes, by name; ``dropped`` is the number of saved grants that were dropped."""

    target: Pinning
    containers: tuple[ResetContainer, ...]
    dropped: int
    is_dry: bool

    @property
    def is_complete(self) -> bool:
        """Whether no container was left pinned, in the runtime or in systemd."""
        return all(container.outcome != "refused" and not container.problem for container in self.containers)


def everything(machine: Machine, available: CpuSet) -> Pinning:
    """Return all CPUs that are online, ``available`` to containers and not isolated, and all nodes with memory."""
    cpus = (machine.online & available) - machine.isolated
    # Never an empty list: to the runtime it means "no change", and the container would stay where it is.
    return Pinning(cpus or machine.online, machine.memory_nodes or None)


@dataclass(eq=False)
class NodeReset:
    """One run. The caller holds the daemon's lock, so no container is pinned meanwhile.

    ``files_root`` holds the directories behind ``/.cri-proxy``; ``units`` None: systemd has none of them.
    """

    _channel: RuntimeChannel
    _store: GrantStore
    _machine: Machine
    _files_root: Path
    units: ScopeUnits | None = None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT), init=False)

    async def run(self, available: CpuSet, *, is_dry: bool = False) -> ResetReport:
        """Widen every container, then drop the saved rows of those that are widened.

        Raises CallFailed and RuntimeUnavailable when the runtime does not list its containers, before anything has
        changed; StoreError when the saved grants cannot be read or dropped.
        """
        saved = self._store.load()
        node = await runtime_state.list_node(self._channel)
        # One of these items may be a pinned container, which would stay so unnoticed.
        if node.unreadable:
            problem = f"{node.unreadable} items of the runtime's lists cannot be read; remove those containers or pods"
            raise UnreadableReply("ListContainers", Code.INTERNAL, problem)
        rows = {row.container_id: row for row in saved.rows if row.container_id}
        live = [c for c in node.containers if c.is_live]
        target = everything(self._machine, available)
        results = await asyncio.gather(*(self._widen(c, rows.get(c.id), target, is_dry=is_dry) for c in live))
        kept = [
            # A refusal does not prove that nothing changed: the next start reads the pinning.
            replace(rows[result.container_id], acknowledged=None)
            for result in results
            if result.outcome == "refused" and result.container_id in rows
        ]
        if not is_dry:
            sandboxes = {row.sandbox_id for row in kept}
            gone = [row.key for row in saved.rows if row.key not in {k.key for k in kept}]
            # After the runtime's answers: a run that is interrupted leaves the rows to the next one.
            await self._store.save(
                kept, [*gone, *(s.sandbox_id for s in saved.sandboxes if s.sandbox_id not in sandboxes)]
            )
            devices = {container_id: device_words(row.grant.devices) for container_id, row in rows.items()}
            await asyncio.to_thread(self._write_files, {c.id: c.key for c in live}, results, devices)
        ordered = sorted(results, key=lambda r: (r.namespace, r.pod, r.name, r.container_id))
        return ResetReport(target, tuple(ordered), len(saved.rows) - len(kept), is_dry)

    async def _widen(
        self, container: runtime_state.LiveContainer, row: Row | None, target: Pinning, *, is_dry: bool
    ) -> ResetContainer:
        result = ResetContainer("", "", container.key.name, container.id, "refused", Pinning(), target)
        async with self._slots:
            try:
                status = await runtime_state.container_status(self._channel, container.id)
                result = _named(result, status.status.labels, container, row)
                found = read_status(status, pb.PodSandboxStatus())
                # Where the runtime has no record of a set, the last confirmed one counts.
                before = Pinning(found.cpus, found.mems).over(row.known if row is not None else None)
                ours = _writable(container, row, target)
                send = _step(before, ours, is_managed=row is not None or bool(container.grant_annotation))
                result = replace(result, before=before, after=send.over(before))
                if ours == Pinning():
                    return replace(result, outcome="opted out")
                if is_dry:
                    return replace(result, outcome="wide already" if send == Pinning() else "would widen")
                if send != Pinning():
                    message = update_request(container.id, send)
                    await self._channel.unary(UPDATE, message, timeout_seconds=UPDATE_TIMEOUT_SECONDS)
                problem = "" if self.units is None else await self.units.correct(found.pid, container.id, ours)
                return replace(result, outcome="wide already" if send == Pinning() else "widened", problem=problem)
            except CallFailed as error:
                if error.code == Code.NOT_FOUND:
                    return replace(result, outcome="gone", after=result.before)
                return replace(result, outcome="refused", after=result.before, problem=error.message)
            except RuntimeUnavailable as error:
                return replace(result, outcome="refused", after=result.before, problem=error.problem)

    def _write_files(
        self,
        keys: Mapping[str, ContainerKey],
        results: Sequence[ResetContainer],
        devices: Mapping[str, tuple[str, ...]],
    ) -> None:
        """Correct what containers read at ``/.cri-proxy``; a file that cannot be written is left as it is. Blocks.

        ``devices`` are those of each container, which keep working in it.
        """
        try:
            present = set(directories.list_directories(self._files_root))
        except directories.ResourceFilesError:
            return
        sets = machine_sets(self._machine)
        for result in results:
            directory = directories.directory_of(keys[result.container_id])
            if directory in present and result.outcome in ("widened", "wide already"):
                with suppress(directories.ResourceFilesError):
                    wide = unpinned_resources(result.after, sets, devices.get(result.container_id, ()))
                    directories.write_files(self._files_root, directory, wide)


def _writable(container: runtime_state.LiveContainer, row: Row | None, target: Pinning) -> Pinning:
    """Return those fields of the target that no annotation of the container preserves."""
    if row is not None:
        preferences = row.grant.request.preferences
        keeps_cpus = preferences.preserve_cpu
        keeps_mems = keeps_cpus or preferences.preserve_memory
    else:
        try:
            keeps_cpus = grant_parts_from_text(container.grant_annotation).kind is CpuKind.PRESERVE
        except GrantTextError:
            keeps_cpus = False
        keeps_mems = keeps_cpus
    return Pinning(None if keeps_cpus else target.cpus, None if keeps_mems else target.mems)


def _step(before: Pinning, ours: Pinning, *, is_managed: bool) -> Pinning:
    """Return the sets to send. A container without any pinning is not limited, unless it went through the proxy."""
    unknown = is_managed and before == Pinning()
    return Pinning(
        ours.cpus if unknown or (before.cpus is not None and before.cpus != ours.cpus) else None,
        ours.mems if unknown or (before.mems is not None and before.mems != ours.mems) else None,
    )


def _named(
    result: ResetContainer, labels: Mapping[str, str], container: runtime_state.LiveContainer, row: Row | None
) -> ResetContainer:
    """Return the result with the pod's names: from the kubelet's labels, else as saved, else its uid."""
    pod = row.grant.request.pod if row is not None else None
    return replace(
        result,
        namespace=labels.get("io.kubernetes.pod.namespace", "") or (pod.namespace if pod is not None else ""),
        pod=labels.get("io.kubernetes.pod.name", "") or (pod.name if pod is not None else container.key.pod_uid),
    )
