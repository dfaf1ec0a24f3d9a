"""Read unknown containers (with rebuilt grants) and exits from the runtime; list those left alone or still unplaced."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.cache import AnnotationReader
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.cri.cdi.variables import ClaimNotRead
from cri_proxy.cri.devices.names import NO_PROOFS, needing_proof
from cri_proxy.cri.devices.plugin_devices import with_named
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_status import Existing, read_status
from cri_proxy.errors import CallFailed, UnreadableReply
from cri_proxy.file_workers import FilesFailed
from cri_proxy.foreign_text import admit
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Part
from cri_proxy.node.effects import Effects
from cri_proxy.node.sync import runtime_state
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.node.sync.restore_grant import keeps_wishes, rebuild
from cri_proxy.node.sync.runtime_state import LiveContainer
from cri_proxy.state.rows import Row
from cri_proxy.tasks import each_of
from policies.base import ContainerKey, Grant, Pinning, QosClass, Request
from policies.device_grants import DeviceGrant, DeviceHolding, device_words, with_given
from sysfs.cpuset import CpuSet

_QOS_ORDER = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)
# A container whose status the runtime refuses is read again after the first pause, which doubles up to the longest; one
# whose status cannot be used, after the longest. Both at once when the list shows a change.
REREAD_SECONDS = (60.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Adopted:
    """A live container as read from the runtime; ``grant`` is what its annotation records, else None.

    ``is_claim_found``: it has no usable grant annotation, and another allocator chose its CPUs. It gets no others.
    ``has_cpuset``: the runtime's record has CPUs.
    """

    container: LiveContainer
    request: Request
    pinning: Pinning
    grant: Grant | None
    is_claim_found: bool = False
    has_cpuset: bool = True

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """The order of placing: QoS class, most whole CPUs first, oldest first, id (docs/placement.md, section 8)."""
        qos = _QOS_ORDER.index(self.request.pod.qos)
        return (qos, -(self.request.cpu_request_mcpu // 1000), self.container.created_at_ns, self.container.id)

    def row(self, grant: Grant, order: int) -> Row:
        """Return a row with ``grant``; a cold start counts from the creation, which is known."""
        warm_at_seconds = None
        if grant.is_cold and self.container.state == "running":
            warm_at_seconds = self.container.created_at_ns / 1e9 + grant.request.preferences.cold_start_seconds
        return Row(
            grant=grant,
            sandbox_id=self.container.sandbox_id,
            container_id=self.container.id,
            state=self.container.state,
            acknowledged=self.pinning,
            created_order=order,
            warm_at_seconds=warm_at_seconds,
        )


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A container that is left alone; ``cpus`` None = it can run anywhere, ``reason`` '' = by the operator's choice.

    ``devices`` are those of the inventory that it has.
    """

    name: str
    cpus: CpuSet | None
    devices: tuple[DeviceGrant, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A container that could not be adopted: how the list showed it, why ('' = it has ended), when to read it again."""

    shown: tuple[object, ...]
    name: str
    reason: str
    pause_seconds: float
    again_at_seconds: float


class Adoption:
    """Reads containers that have no row."""

    def __init__(self, context: Context, config: Callable[[], Config]) -> None:
        """``config`` returns the options in force."""
        self._context = context
        self._config = config
        self._claims = ClaimSources()
        self._left: dict[str, LeftAlone] = {}
        self._given_up: dict[str, GivenUp] = {}
        self._unplaced: set[str] = set()
        self._slots = asyncio.Semaphore(runtime_state.STATUS_CONCURRENCY)

    def use_claims(self, sources: ClaimSources) -> None:
        """Look claims of containers up here from now on."""
        self._claims = sources

    def is_left(self, container_id: str) -> bool:
        """Return whether this container was found and left alone."""
        return container_id in self._left

    def left(self) -> tuple[LeftAlone, ...]:
        """Return the containers that are left alone, by name."""
        return tuple(sorted(self._left.values(), key=lambda left: left.name))

    def forget_left(self) -> bool:
        """Let the next check of the node place the containers that are left alone; return whether there are any."""
        had_some, self._left = bool(self._left), {}
        self._given_up.clear()  # other annotations may count now
        self._withhold()
        return had_some

    def note_unplaced(self, container_id: str) -> None:
        """Note a container that was created while deciding failed: it waits for its place."""
        self._unplaced.add(container_id)

    def unplaced(self) -> tuple[str, ...]:
        """Return the ids of the containers that still wait for their place, ascending."""
        return tuple(sorted(i for i in self._unplaced if self._context.ledger.holder(i) is None))

    def is_given_up(self, container: LiveContainer) -> bool:
        """Return whether it could not be adopted, looks as it did then, and is not due to be read again."""
        known = self._given_up.get(container.id)
        if known is None or self._context.clock.monotonic_seconds() >= known.again_at_seconds:
            return False
        return known.shown == _shown(container)

    def given_up(self) -> tuple[GivenUp, ...]:
        """Return the live containers that could not be adopted, by name."""
        return tuple(sorted((g for g in self._given_up.values() if g.reason), key=lambda given_up: given_up.name))

    def keep_left(self, live_ids: Collection[str]) -> None:
        """Drop containers left alone, unplaced or given up that are not among these; their CPUs are free again."""
        self._unplaced &= set(live_ids)
        self._given_up = {i: given_up for i, given_up in self._given_up.items() if i in live_ids}
        kept = {container_id: left for container_id, left in self._left.items() if container_id in live_ids}
        if kept != self._left:
            self._left = kept
            self._withhold()

    async def read_all(self, containers: Sequence[LiveContainer], *, may_leave: bool = True) -> tuple[Adopted, ...]:
        """Read these containers; leave out those that vanish meanwhile or are to be left alone.

        The own cpuset of a container that is left alone is withheld from exclusive use. Raises RuntimeUnavailable.
        """
        kept = []
        for adopted in await each_of(containers, self._read, at_once=runtime_state.STATUS_CONCURRENCY):
            if adopted is None:
                continue
            # The option is about containers that were there before the proxy: one that has our grant, or is about to
            # start through us, is placed.
            if may_leave and adopted.grant is None and self._config().adopt == "leave":
                self._leave(adopted)
            else:
                kept.append(adopted)
        self._withhold()
        return tuple(kept)

    def leave(self, those: Iterable[tuple[Adopted, str]]) -> None:
        """Leave these containers alone, each for its reason, until one of the options changes; log that."""
        for adopted, reason in those:
            self._leave(adopted, reason)
            name = adopted.request.container.name
            self._context.journal.noted(events.NOT_ADOPTED, container=name, reason=reason)
        self._withhold()

    def _leave(self, adopted: Adopted, reason: str = "") -> None:
        # One that may run everywhere has chosen nothing: to withhold all CPUs for it would leave none to own.
        everywhere = adopted.pinning.cpus == self._context.ledger.policy.machine.online
        own = None if everywhere else adopted.pinning.cpus
        joined = self._context.ledger.policy.known
        name, devices = str(adopted.request.full_name), tuple(map(joined.identified, _devices_of(adopted.request)))
        self._left[adopted.container.id] = LeftAlone(name, own, devices, reason)

    def hold_late(self, lacking: Callable[[str, tuple[DeviceGrant, ...]], tuple[DeviceGrant, ...]]) -> None:
        """Hold more devices of containers that are left alone: ``lacking`` of their names and what they hold so far."""
        more = {i: found for i, left in self._left.items() if (found := lacking(left.name, left.devices))}
        for container_id, devices in more.items():
            left = self._left[container_id]
            self._left[container_id] = replace(left, devices=with_given(left.devices, devices))
            named = ", ".join(device_words(devices))
            self._context.journal.noted(events.DEVICES_LEARNED, container=left.name, devices=named)
        if more:
            self._withhold()

    def _withhold(self) -> None:
        """Withhold the cpusets that containers brought along from exclusive use, and their devices from any."""
        cpus = {i: left.cpus for i, left in self._left.items() if left.cpus is not None}
        held = (
            DeviceHolding(f"{left.name} (left alone)", left.devices) for left in self._left.values() if left.devices
        )
        self._context.ledger.note_foreign(cpus, tuple(held))

    def confirm(self, key: ContainerKey, pinning: Pinning, *, has_cpuset: bool) -> None:
        """Note where the runtime has this container; where it has no cpuset, one is written, even if it is of all CPUs.

        Until then the container runs on CPUs that come online later, too.
        """
        self._context.ledger.confirm(key, pinning)
        if not has_cpuset:
            self._context.ledger.mark_unconfirmed(key, Pinning(pinning.cpus))

    async def inspect(self, container_id: str) -> Existing:
        """Return the runtime's verbose status of this container. Raises CallFailed and RuntimeUnavailable."""
        async with self._slots:
            status = await runtime_state.container_status(self._context.channel, container_id)
        return read_status(status, pb.PodSandboxStatus())

    async def _read(self, container: LiveContainer) -> Adopted | None:
        try:
            async with self._slots:
                status = await runtime_state.container_status(self._context.channel, container.id)
                sandbox = await runtime_state.sandbox_status(self._context.channel, container.sandbox_id)
        except CallFailed as error:
            self._give_up(container, str(error), was_answered=isinstance(error, UnreadableReply))
            return None
        machine = self._context.ledger.policy.machine
        capacity_bytes = sum(node.memory_bytes for node in machine.nodes)
        annotations = AnnotationReader(self._rules_for(status.status), self._context.annotations)
        found = read_status(status, sandbox.status, annotations=annotations, node_memory_bytes=capacity_bytes)
        if (found.container_id, found.request.container) != (container.id, container.key):
            self._give_up(container, "the runtime's status of it is of another container")
            return None
        if found.state not in (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING):
            self._give_up(container, "")
            return None
        rebuilt = rebuild(found, machine)
        request, is_unclaimed = rebuilt.request, rebuilt.is_known or self._config().claims == "ignore"
        if not rebuilt.is_known:  # else these names may be of what was allocated to it here
            request = await self._with_given(request, found.cdi_names)
        if not is_unclaimed:
            try:
                request = await self._claims.claimed(request, found, sandbox, annotations.rules)
            except (FilesFailed, ClaimNotRead) as error:
                reason = f"it is not known whether CPUs were chosen for it: {error}"
                self._give_up(container, admit(reason), was_answered=False)
                return None
        self._given_up.pop(container.id, None)
        is_found = not is_unclaimed and request.claim is not None
        return Adopted(container, request, self.pinning(found), rebuilt.grant, is_found, found.cpus is not None)

    async def _with_given(self, request: Request, cdi_names: Sequence[str]) -> Request:
        """Return the request with the devices that these CDI names are of, and those that the kubelet has allocated."""
        joined = self._context.ledger.policy.known
        if not joined.pieces:
            return request
        told = await self._claims.told_of(request)
        claimed = [name for name, _ in told.cdi]  # CRI-O does not keep them
        names = tuple(dict.fromkeys((*cdi_names, *claimed)))
        # Claims of monitoring are for devices in use by others (adminAccess); the kubelet does not tell which ones are.
        if self._config().lets_watch(request.pod.namespace):
            names = tuple(name for name in names if name not in claimed)
        unproved = needing_proof(names)
        proofs = await self._claims.proofs_of(unproved) if unproved else NO_PROOFS
        return replace(request, given=with_named(request.given, names, joined, told.allocated, proofs))

    def _rules_for(self, container: pb.ContainerStatus) -> AnnotationRules:
        config, is_running = self._config(), container.state == pb.CONTAINER_RUNNING
        # What was granted before it needed a namespace stays granted, also where the store is lost.
        is_kept = keeps_wishes(container.annotations.get(GRANT_KEY, ""), is_running=is_running)
        return config.annotation_rules if is_kept else config.creation_rules

    def _give_up(self, container: LiveContainer, reason: str, *, was_answered: bool = True) -> None:
        """Remember why it was not adopted, so that it is not read again at every check; log that once."""
        first, longest = REREAD_SECONDS
        known, shown = self._given_up.get(container.id), _shown(container)
        is_same = known is not None and (known.shown, known.reason) == (shown, reason)
        pause = longest if was_answered else min(2 * known.pause_seconds, longest) if known is not None else first
        again_at = self._context.clock.monotonic_seconds() + pause
        self._given_up[container.id] = GivenUp(shown, container.key.name, reason, pause, again_at)
        if reason and not is_same:
            self._context.journal.noted(events.NOT_ADOPTED, container=container.key.name, reason=reason)

    def pinning(self, found: Existing) -> Pinning:
        """Return the runtime's record; without a cpuset the container can run anywhere."""
        return Pinning(found.cpus or self._context.ledger.policy.machine.online, found.mems)


class SyncPart(Part):
    """A part that places or frees containers by what the runtime has."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator, adoption: Adoption) -> None:
        super().__init__(context, effects, coordinator)
        self._adoption = adoption


def _devices_of(request: Request) -> tuple[DeviceGrant, ...]:
    """Return the devices that a container without a grant is known to have."""
    return with_given(request.previous.devices if request.previous is not None else (), request.given)


def _shown(container: LiveContainer) -> tuple[object, ...]:
    """Return the listed properties of a container on which its reading depends; small, whatever its annotations."""
    return container.state, container.created_at_ns, container.annotations_hash
