"""``PodView``: one grant for each owner, where the containers of a pod with resources of its own share one. Pure.

The ledger has a grant per container, and those of a pod that share are copies of one, but for their devices. Placement
sees that one grant, with what is booked and promised for all of them, and the devices of all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from policies.base import Allocations, ContainerKey, Grant, HugePageLimit, Request, Update
from policies.device_grants import by_cost, by_place
from policies.topology_aware.supply.context import aligned, localities_of, near
from policies.topology_aware.supply.memory_account import promised_bytes
from sysfs.cpuset import gathered

_NONE: Mapping[ContainerKey, tuple[Grant, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PodView:
    """``owners`` is ``held`` with one grant for each pod whose containers share, and for each claim of a pod.

    ``members`` has the grants that an owner's stands for, by its key, which is that of the first of them;
    ``owner_of`` the owner's key of each container that shares. A container that only shares its pod's memory limit is
    an owner, too.
    """

    held: Allocations
    owners: Allocations
    members: Mapping[ContainerKey, tuple[Grant, ...]] = field(default_factory=lambda: _NONE)
    owner_of: Mapping[ContainerKey, ContainerKey] = field(default_factory=dict)

    def owner(self, container: ContainerKey) -> ContainerKey:
        """Return the key under which this container's grant stands in ``owners``."""
        return self.owner_of.get(container, container)

    def containers(self, owner: ContainerKey) -> tuple[ContainerKey, ...]:
        """Return the containers that share with this one, itself included."""
        members = self.members.get(self.owner(owner))
        return tuple(grant.container for grant in members) if members is not None else (owner,)

    def each(self, grants: Iterable[Grant]) -> Iterator[Grant]:
        """Yield these grants of owners as grants of their containers, each with its own devices."""
        for grant in grants:
            members = self.members.get(grant.container)
            if members is None:
                yield grant
            for member in members or ():
                # An owner of several has the devices of all of them; each container keeps its own.
                held = member.devices if len(members or ()) > 1 else grant.devices
                own = replace(grant, share=member.share, devices=held)
                places = localities_of(grant.request, own.device_sources)
                own = replace(own, request=near(aligned(member.request, grant.request.alignment), places))
                yield member if own == member else own

    def as_held(self, owners: Allocations) -> Allocations:
        """Return allocations of owners with the grants of their containers instead."""
        if not self.members:
            return owners
        return replace(owners, grants=tuple(sorted(self.each(owners.grants), key=lambda grant: grant.container)))

    def updates(self, updates: tuple[Update, ...]) -> tuple[Update, ...]:
        """Return updates of owners as updates of their containers, sorted by container."""
        if not self.members:
            return updates
        found = (Update(key, update.pinning) for update in updates for key in self.containers(update.container))
        return tuple(sorted(found, key=lambda update: update.container))


def pod_view(held: Allocations, last: PodView | None = None) -> PodView:
    """Return the view of these grants. ``last`` is an earlier one: what has not changed since stays the same object."""
    sharing = gathered((grant.container.pod_uid, grant) for grant in held.grants if grant.share is not None)
    # On most nodes no pod has resources of its own.
    if not sharing:
        return PodView(held, held)
    members: dict[ContainerKey, tuple[Grant, ...]] = {}
    owners: dict[ContainerKey, Grant] = {}
    for grants in sharing.values():
        for group in _groups(grants):
            key = group[0].container
            members[key] = group
            owner = _owner(group, promised=_shared_bytes(grants) if key == _carrier(grants) else 0)
            # The same object where nothing changed: what follows from it need not be worked out again.
            same = last.owners.get(key) if last is not None else None
            owners[key] = same if same is not None and same == owner else owner
    owner_of = {grant.container: key for key, group in members.items() for grant in group}
    kept = (owners.get(g.container, g) for g in held.grants if owner_of.get(g.container, g.container) == g.container)
    return PodView(held, replace(held, grants=tuple(kept)), members, owner_of)


def _groups(grants: list[Grant]) -> Iterator[tuple[Grant, ...]]:
    """Yield the containers that share a pod's CPUs, those that share a claim's, then each other one."""
    together = gathered((grant.request.claim, grant) for grant in grants if grant.shares_cpus)
    yield from map(tuple, together.values())
    yield from ((grant,) for grant in grants if not grant.shares_cpus)


def _carrier(grants: list[Grant]) -> ContainerKey | None:
    """Return the owner that is promised what the containers of the pod share: that of their CPUs, else the first."""
    of_memory = [grant for grant in grants if grant.share is not None and grant.share.memory_bytes is not None]
    sharing = next((grant for grant in of_memory if grant.shares_cpus), None)
    if sharing is not None:
        return next(grant.container for grant in grants if grant.shares_cpus_with(sharing))
    return of_memory[0].container if of_memory else None


def _shared_bytes(grants: list[Grant]) -> int:
    shares = (grant.share.memory_bytes for grant in grants if grant.share is not None)
    return max((amount for amount in shares if amount is not None), default=0)


def _owner(group: tuple[Grant, ...], promised: int) -> Grant:
    """Return the grant that stands for these: ``promised`` bytes for all of them, and what each is promised itself."""
    own = (promised_bytes(g.request) for g in group if g.share is None or g.share.memory_bytes is None)
    request = booked(group[0].request, group[0].booked_for_mcpu, promised + sum(own))
    if len(group) > 1:
        request = replace(request, huge_pages=_all_huge_pages(group))
    devices = [device for grant in group for device in grant.devices]
    return replace(group[0], request=request, share=None, devices=(*by_cost(devices), *by_place(devices)))


def _all_huge_pages(group: tuple[Grant, ...]) -> tuple[HugePageLimit, ...]:
    """Return the huge pages of all containers, by size: the limit of each is its own."""
    sums = Counter[int]()
    for grant in group:
        for wanted in grant.request.huge_pages:
            sums[wanted.page_bytes] += wanted.limit_bytes
    return tuple(HugePageLimit(page_bytes, sums[page_bytes]) for page_bytes in sorted(sums))


def booked(request: Request, mcpu: int, promised: int) -> Request:
    """Return the request with this CPU request and this promise of memory."""
    # A limit that is promised to another container of the pod still is one: 0, not None.
    limit_bytes = request.memory_limit_bytes if promised or request.memory_limit_bytes is None else 0
    return replace(
        request, cpu_request_mcpu=mcpu, memory_request_bytes=promised, memory_limit_bytes=limit_bytes, pod_totals=None
    )
