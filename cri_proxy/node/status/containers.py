"""Build the views of containers, memory and devices for ``status``; find others that may be on a container's CPUs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Self

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.pending_calls import PendingCall
from cri_proxy.node.status.model import (
    ContainerView,
    DeviceHolderView,
    DeviceUseView,
    HugePageView,
    MemoryNodeView,
    Unmet,
)
from cri_proxy.node.status.workload import workload_of
from cri_proxy.node.sync.adoption import LeftAlone
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Pinning, PoolView
from policies.device_grants import DeviceGrant, device_words
from policies.devices import JoinedDevices
from policies.devices.costs import name_order, type_of
from policies.topology_aware import promised_bytes
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import HugePages, Machine
from sysfs.quantity import bytes_text
from sysfs.text import some

# A name or two tell an operator where to look; hundreds would hide the rest of the page.
NAMES_SHOWN = 4


ANYWHERE: Final = -1
"""The mask of all possible CPUs."""


@dataclass(frozen=True, slots=True)
class Other:
    """A container and the CPUs it may use, as a mask.

    ``grant`` is None for those that have none, or are known by name only.
    """

    name: str
    mask: int
    key: ContainerKey | None = None
    grant: Grant | None = None

    def is_of(self, row: Row) -> bool:
        """Return whether this is the same container, or one that shares its pod's CPUs with it."""
        if self.grant is not None and self.grant.shares_cpus_with(row.grant):
            return True
        return self.key == row.key if self.key is not None else self.name == str(row.name)


@dataclass(frozen=True, slots=True)
class Others:
    """Containers that may be on CPUs of others. ``mask`` is the union of their masks.

    An owner whose CPUs are outside ``mask`` needs no look at the members, however many they are.
    """

    members: tuple[Other, ...] = ()
    mask: int = 0

    @classmethod
    def of(cls, members: Iterable[Other]) -> Self:
        """Combine these containers."""
        all_of_them = tuple(members)
        return cls(all_of_them, reduce(or_, (other.mask for other in all_of_them), 0))

    @classmethod
    def of_left(cls, left: Iterable[LeftAlone]) -> Self:
        """Combine containers that are left alone, each with its own CPUs."""
        return cls.of(Other(each.name, _mask(each.cpus)) for each in left)

    def on(self, row: Row) -> tuple[str, ...]:
        """Return the names of those that may be on CPUs which this container owns."""
        owned = self._met(row)
        return tuple([m.name for m in self.members if m.mask & owned and not m.is_of(row)]) if owned else ()

    def is_on(self, row: Row) -> bool:
        """Return whether any may be on CPUs which this container owns."""
        owned = self._met(row)
        return bool(owned) and any(m.mask & owned and not m.is_of(row) for m in self.members)

    def _met(self, row: Row) -> int:
        """Return the CPUs that the container owns and any of these may be on."""
        return (row.grant.exclusive.mask | row.grant.isolated.mask) & self.mask


def _mask(cpus: CpuSet | None) -> int:
    return ANYWHERE if cpus is None else cpus.mask


def unpinned(ledger: Ledger, left: Sequence[LeftAlone]) -> Others:
    """Combine containers whose cpuset is not written: preserved ones, and those ``left`` alone, with their CPUs."""
    desired = ledger.desired()
    ours = [
        Other(str(row.name), _mask(row.known.cpus), row.key, row.grant)
        for row in ledger.active()
        if (pinning := desired.get(row.grant.request.container)) is not None and pinning.cpus is None
    ]
    return Others.of((*ours, *Others.of_left(left).members))


def late(ledger: Ledger, unmet: Sequence[Row]) -> tuple[Other, ...]:
    """Return those of the ``unmet`` whose cpuset is written, with the CPUs they may be on: all if not confirmed."""
    desired, found = ledger.desired(), []
    for row in unmet:
        wanted, known = desired.get(row.key), row.acknowledged
        if wanted is not None and wanted.cpus is not None:
            cpus = ANYWHERE if known is None else known.cpus.mask if known.cpus is not None else 0
            found.append(Other(str(row.name), cpus, row.key, row.grant))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state that containers are shown by. ``ledger`` is a copy where its owner may change it meanwhile.

    ``late`` are containers whose update is not confirmed, ``unheld`` those that cri-proxy does not pin: both may be on
    CPUs that another container owns. ``unanswered`` are sentences by container id. ``misread`` are containers with
    annotations that could not be read.
    """

    ledger: Ledger
    failures: Mapping[ContainerKey, str]
    mems_of_pools: Mapping[str, NodeSet]
    late: Others
    unheld: Others
    unanswered: Mapping[str, str] = field(default_factory=dict)
    misread: Collection[ContainerKey] = frozenset()

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        pools: Sequence[PoolView],
        *,
        left: Sequence[LeftAlone] = (),
        failures: Mapping[ContainerKey, str],
        unanswered: Iterable[PendingCall] = (),
        misread: Collection[ContainerKey] = frozenset(),
    ) -> Self:
        """Take the state now; ``left`` are containers that are not pinned, beside those of the ledger."""
        mems = {pool.name: pool.mems for pool in pools}
        there, unheld = late(ledger, ledger.unmet()), unpinned(ledger, left)
        calls = {call.row.container_id: call.text for call in unanswered}
        return cls(ledger, failures, mems, Others.of(there), unheld, calls, misread)


def container_view(row: Row, moment: Moment) -> ContainerView:
    """Return the view of a row: its grant, its wanted and confirmed pinning, and the others that use its CPUs."""
    grant, request, ledger = row.grant, row.grant.request, moment.ledger
    wanted, share = ledger.desired().get(row.key, Pinning()), grant.share
    waits_for, reachable = moment.late.on(row), moment.unheld.on(row)
    home_mems = moment.mems_of_pools.get(grant.pool, NodeSet()) | grant.spill
    workload = workload_of(request.pod.name, request.pod.labels)
    is_wide = wanted.mems is not None and bool(home_mems) and not wanted.mems <= home_mems
    return ContainerView(
        namespace=request.pod.namespace,
        pod=request.pod.name,
        name=row.key.name,
        pod_uid=row.key.pod_uid,
        container_id=row.container_id,
        qos=request.pod.qos.value,
        state=row.state,
        kind=grant.kind.value,
        pool=grant.pool,
        cpus=wanted.cpus,
        mems=wanted.mems,
        exclusive=grant.exclusive,
        isolated=grant.isolated,
        shared_mcpu=grant.shared_mcpu,
        reserved_mcpu=grant.reserved_mcpu,
        notes=_notes(row, moment, waits_for, reachable),
        acknowledged_cpus=row.known.cpus,
        acknowledged_mems=row.known.mems,
        home_mems=home_mems,
        memory_bytes=promised_bytes(request) if share is None or share.memory_bytes is None else share.memory_bytes,
        is_cold=grant.is_cold,
        warm_at_seconds=row.warm_at_seconds,
        waits_for=waits_for,
        reachable_by=reachable,
        is_overcommitted=grant.is_overcommitted,
        shares_pod_cpus=grant.shares_cpus,
        claim=request.claim.source if request.claim is not None else "",
        devices=device_words(grant.devices),
        workload=workload.name,
        workload_kind=workload.kind,
        unmet=tuple(_unmet(row, moment, is_contested=bool(waits_for or reachable), is_wide=is_wide)),
    )


def _unmet(row: Row, moment: Moment, *, is_contested: bool, is_wide: bool) -> Iterator[Unmet]:
    owned, nodes = row.grant.owned, moment.ledger.policy.machine.nodes
    if row.grant.is_overcommitted:
        yield Unmet.OVERCOMMITTED
    spans = len(owned) > 1 and sum(not owned.isdisjoint(node.cpus) for node in nodes) > 1
    if spans and any(len(node.cpus) >= len(owned) for node in nodes):
        yield Unmet.CPUS_WIDER
    if is_wide:
        yield Unmet.MEMORY_WIDER
    if is_contested:
        yield Unmet.CONTESTED
    if row.key in moment.misread:
        yield Unmet.ANNOTATION_IGNORED


def _notes(row: Row, moment: Moment, waits_for: Sequence[str], reachable: Sequence[str]) -> tuple[str, ...]:
    notes, failure = [], moment.failures.get(row.key)
    if row.container_id and failure is None and moment.ledger.due(row):
        known = row.acknowledged.cpus if row.acknowledged is not None else "unknown"
        notes.append(f"an update waits: the runtime has it on CPUs {known}")
    if row.container_id in moment.unanswered:
        notes.append(moment.unanswered[row.container_id])
    if failure is not None:
        notes.append(f"the runtime rejected its update: {failure}")
    if waits_for:
        notes.append(f"its CPUs are still in use by: {some(waits_for, NAMES_SHOWN)}")
    if row.grant.is_overcommitted:
        notes.append(f"overcommitted: no CPU reservation for its request of {row.grant.booked_for_mcpu}m")
    if row.state == "pending":
        notes.append("creation not confirmed by the runtime")
    if reachable:
        notes.append(f"its CPUs are reachable by: {some(reachable, NAMES_SHOWN)} (which cri-proxy does not pin)")
    return tuple(notes)


def reserved_warning(containers: Iterable[ContainerView], reserved: CpuSet) -> tuple[str, ...]:
    """Return a warning where containers ask for more of these reserved CPUs than there are, else nothing."""
    # Containers that share their pod's CPUs ask for them together.
    asking = {(c.pod_uid, "" if c.shares_pod_cpus else c.name): c for c in containers if c.reserved_mcpu}
    asked_mcpu = sum(container.reserved_mcpu for container in asking.values())
    if not reserved or asked_mcpu <= 1000 * len(reserved):
        return ()
    away = [str(c) for c in asking.values() if c.kind == CpuKind.SHARED]
    shares = f"; on shared CPUs meanwhile: {some(sorted(away), NAMES_SHOWN)}" if away else ""
    has = f"the reserved CPUs {reserved} have {1000 * len(reserved)}m, and their containers ask for {asked_mcpu}m"
    return (f"{has}{shares}; raise reservedResources.cpu, or name fewer ReservedPoolNamespaces",)


def violations(
    containers: Sequence[ContainerView], escaped: Sequence[LeftAlone] = (), left: Sequence[LeftAlone] = ()
) -> tuple[str, ...]:
    """Return one sentence for each running container that does not have its own CPUs alone.

    ``escaped`` are containers whose processes the kernel moved out of their cgroups: pinned, and elsewhere. ``left``
    are those that another manager keeps on other CPUs.
    """
    elsewhere = {each.name: each.cpus for each in left}
    movers, sentences = {each.name for each in escaped} | elsewhere.keys(), []
    for c in containers:
        name, owned = str(c), c.exclusive | c.isolated
        there = (*c.waits_for, *(other for other in c.reachable_by if other in movers))
        problems = [f"does not have its CPUs {owned} alone: still used by {some(there, NAMES_SHOWN)}"] if there else []
        if owned and name in elsewhere:
            problems.append(f"owns CPUs {owned} and is on {elsewhere[name]}, where another manager keeps it")
        if c.state == "running" and problems:
            sentences.append(f"{name} {'; it '.join(problems)}")
    return tuple(sentences)


def memory_views(machine: Machine, grants: Sequence[Grant]) -> tuple[MemoryNodeView, ...]:
    """Return the nodes that have memory, ascending, with what is promised to containers."""
    zones = Counter(grant.mems.mask for grant in grants)  # by the mask of their nodes
    memory, pages = Counter[int](), Counter[tuple[int, int]]()
    pods: set[str] = set()
    for grant in grants:
        promised, share = promised_bytes(grant.request), grant.share
        if share is not None and share.memory_bytes is not None:  # once for the containers of a pod
            promised = share.memory_bytes if grant.container.pod_uid not in pods else 0
            pods.add(grant.container.pod_uid)
        memory[grant.mems.mask] += promised
        for wanted in grant.request.huge_pages:
            pages[wanted.page_bytes, grant.mems.mask] += wanted.limit_bytes
    views = []
    for node in machine.nodes:
        if node.memory_bytes:
            count = sum(count for mask, count in zones.items() if mask >> node.id & 1)
            here = _promised(memory.items(), node.id)
            huge_pages = tuple(_huge_page_view(pool, pages, node.id) for pool in node.huge_pages)
            views.append(
                MemoryNodeView(node.id, node.kind.value, node.ordinary_bytes, *here, count, huge_pages=huge_pages)
            )
    return tuple(views)


def _huge_page_view(pool: HugePages, promised: Mapping[tuple[int, int], int], node: int) -> HugePageView:
    of_size = ((mask, amount) for (size, mask), amount in promised.items() if size == pool.page_bytes)
    return HugePageView(bytes_text(pool.page_bytes), pool.total_bytes, *_promised(of_size, node))


def _promised(zones: Iterable[tuple[int, int]], node: int) -> tuple[int, int]:
    """Return the bytes promised in zones of this node alone, and in those with other nodes as well."""
    here = [(mask == 1 << node, amount) for mask, amount in zones if mask >> node & 1]
    return sum(amount for is_alone, amount in here if is_alone), sum(
        amount for is_alone, amount in here if not is_alone
    )


def device_views(joined: JoinedDevices, allocations: Allocations) -> tuple[DeviceUseView, ...]:
    """Return a view of each type that is listed or held, by its name; holders are in the order of their names.

    A device that is held by another name, as of the inventory, is held here by each of its names.
    """
    holders: dict[str, list[DeviceHolderView]] = {}
    for holder, devices in allocations.device_holders():
        by_type: dict[str, set[str]] = {}
        for name in (name for device in devices for name in _names_of(device, joined)):
            by_type.setdefault(type_of(name), set()).add(name)
        for kind, names in by_type.items():
            holders.setdefault(kind, []).append(DeviceHolderView(holder, _in_order(names)))
    listed = joined.inventory.costs.devices
    return tuple(_device_use(kind, listed.get(kind, ()), holders.get(kind, [])) for kind in sorted({*listed, *holders}))


def _names_of(device: DeviceGrant, joined: JoinedDevices) -> Iterator[str]:
    if device.cost_name:
        yield device.cost_name
    piece = joined.likely(device)
    yield from piece.names if piece is not None else ()


def _device_use(kind: str, listed: Sequence[str], holders: Sequence[DeviceHolderView]) -> DeviceUseView:
    held = {device for holder in holders for device in holder.devices}
    return DeviceUseView(
        kind,
        present=len(listed),
        held=len(held),
        free=_in_order(set(listed) - held),
        unlisted=_in_order(held.difference(listed)),
        holders=tuple(sorted(holders, key=lambda holder: holder.container)),
    )


def _in_order(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(devices, key=name_order))
