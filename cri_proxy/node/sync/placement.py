"""Place containers that the runtime has and that hold nothing here: adopted, restored, or started after all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cri_proxy import events
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.coordinator import Refusal
from cri_proxy.node.ledger.ledger import ACTIVE, full_id
from cri_proxy.node.replan import admit, off_loop
from cri_proxy.node.sync import runtime_state
from cri_proxy.node.sync.adoption import Adopted, SyncPart
from cri_proxy.node.sync.claims import Settled, settle
from cri_proxy.node.sync.reconcile import newest_by_key, with_abandoned
from cri_proxy.node.sync.restore_grant import Rebuilt, united
from cri_proxy.node.sync.runtime_state import LiveContainer
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Request
from policies.device_grants import DeviceHolding, by_cost, device_words
from policies.devices import HeldHardware
from policies.policy import Policy


class LatePlacement(SyncPart):
    """Places live containers without a place beside those that have one."""

    async def adopt(self, containers: Sequence[LiveContainer]) -> None:
        """Place running containers without a grant: after an internal error, or restored from a checkpoint."""
        # Before the reads: what is decided on during them is newer, and stays.
        order = self._ledger.next_order()
        try:
            found = await self._adoption.read_all(containers)
        except RuntimeUnavailable as error:
            self._context.journal.noted(events.CHECK_FAILED, reason=str(error))
            return
        await self._take(found, order)

    async def _take(self, found: Sequence[Adopted], order: int) -> None:
        changed = await self.reinstate(found, order)
        self._context.persistence.save_later(changed)
        self._effects.schedule()

    async def adopt_id(self, container_id: str) -> None:
        """Place one container that is known by its id alone."""
        await self.place_to_start(container_id)

    async def place_to_start(self, container_id: str) -> Refusal | None:
        """Place a container by its id, or a prefix of it; return why it is not to be started, None where it may be.

        One that was created and has lost its place starts in another one or not at all: its CPUs may be others' by now.
        """
        if not self._coordinator.is_ready:
            return None  # the restore will find it
        try:
            node = await runtime_state.list_node(self._context.channel)
            containers = {c.id: c for c in node.containers}
            found = containers.get(full_id(container_id, containers))
            if found is None or self._adoption.is_left(found.id):
                return None  # unknown to the runtime too, or found by the restore and left alone
            # Another attempt that was never started either has no place: this one may have it.
            marked = with_abandoned(node, self._context.clock.now_seconds(), found.id.__eq__)
            refusal = await self._adopt_one(found, newest_by_key(marked.containers).get(found.key))
            container_id = found.id
        except (CallFailed, RuntimeUnavailable) as error:
            self._context.journal.noted(events.CHECK_FAILED, container_id=container_id, reason=str(error))
            found, refusal = None, None
        row = self._ledger.holder(container_id)
        if row is None or row.state in ACTIVE or (found is not None and found.state != "created"):
            return refusal  # the runtime refuses to start what has ended, in its own words
        return refusal or _refused(row.grant.request, "its place was given back before it ran, and it got no other")

    async def _adopt_one(self, found: LiveContainer, newest: LiveContainer | None) -> Refusal | None:
        row, is_created = self._ledger.get(found.key), found.state == "created"
        if is_created and row is not None and row.state in ACTIVE and (found != newest or row.state == "reserved"):
            return _refused(row.grant.request, "a newer attempt has its place")
        if found != newest and not is_created:
            return None
        order = self._ledger.next_order()
        adopted = await self._adoption.read_all([found], may_leave=False)
        # Without a place it would run on the CPUs that it had, which may be another's by now.
        if found != newest:
            return _refused(adopted[0].request, "a newer attempt is there") if adopted else None
        # One that runs has its devices open, whatever others were given since: refusing its start would not help.
        for each in adopted if is_created else ():
            if self._is_wanted(each, order) and (devices := await self._lost_devices(each.request)):
                return _refused(each.request, f"others have its devices by now ({', '.join(devices)})")
        await self._take(adopted, order)
        return None

    async def _lost_devices(self, request: Request) -> tuple[str, ...]:
        """Return the devices of a container without a place if others have got some of them since."""
        had = request.previous.devices if request.previous is not None else ()
        own = Grant(request, "", CpuKind.PRESERVE, devices=had)

        def prepare() -> Callable[[], bool]:
            held, policy = self._ledger.allocations, self._ledger.policy
            return lambda: _collides(policy, held, own)

        is_lost = bool(had) and await off_loop(lambda: self._ledger.version, prepare)
        return device_words(own.devices) if is_lost else ()

    async def reinstate(self, found: Sequence[Adopted], order: int) -> tuple[Row, ...]:
        """Place saved, restored and new grants together; return the rows that changed.

        ``order`` is when ``found`` were listed: a container that was decided on since is newer.
        """

        def prepare() -> Callable[[], tuple[list[Adopted], Settled, Mapping[ContainerKey, str]]]:
            # What was saved under other rules may hold wishes that are restricted now.
            admitted = admit(self._ledger.allocations, self._coordinator.config.annotation_rules)
            held, policy = admitted.held, self._ledger.policy
            adopted = [a for a in found if self._is_wanted(a, order)]
            read = united(((Rebuilt(a.request, a.grant), a.pinning.cpus) for a in adopted), held.grants)
            # An annotation is as old as its container: its CPUs may have been given to another one since.
            rebuilt = {key: grant for key, grant in read.items() if _is_free(held, grant)}
            new = sorted((a for a in adopted if a.request.container not in rebuilt), key=lambda a: a.rank)
            held, requests = held.with_grants(*rebuilt.values()), [*admitted.requests, *(a.request for a in new)]
            live = {a.request.container: a.pinning.cpus for a in adopted if a.pinning.cpus is not None}
            claimed = {a.request.container for a in new if a.is_claim_found}
            return lambda: (adopted, settle(policy, held, requests, live, claimed), admitted.why)

        adopted, settled, refused = await off_loop(lambda: self._ledger.version, prepare)
        result, before = settled.reinstated, self._ledger.allocations
        self._adoption.leave((a, why) for a in adopted if (why := settled.missed.get(a.request.container)))
        said = {**{key: reason.text for key, reason in (*result.replaced, *result.unplaced)}, **refused}
        for key, why in said.items():
            after = result.allocations.get(key)
            if after is not None:
                self._context.journal.changed(before.get(key), after, why)
        sources = {a.request.container: a for a in adopted if a.request.container not in settled.missed}
        changed: list[Row] = []
        for grant in result.allocations.grants:
            row, source = self._ledger.get(grant.container), sources.get(grant.container)
            if source is not None:
                changed.append(source.row(grant, self._ledger.next_order()))
            elif row is not None and row.grant != grant:
                changed.append(replace(row, grant=grant))
        self._ledger.put(*changed)
        for row in changed:
            if row.key in sources and row.acknowledged is not None:
                # ``put`` alone makes no CPU exclusive: that follows from where the runtime has the container.
                self._adoption.confirm(row.key, row.acknowledged, has_cpuset=sources[row.key].has_cpuset)
        return tuple(self._ledger.get(row.key) or row for row in changed)

    def _is_wanted(self, adopted: Adopted, order: int) -> bool:
        row = self._ledger.get(adopted.request.container)
        if row is None or row.state not in ACTIVE:
            return True
        return row.container_id not in ("", adopted.container.id) and row.created_order < order


def _refused(request: Request, why: str) -> Refusal:
    return Refusal("update", f"{request.full_name}: {why}; remove this container, and another attempt is placed")


def _collides(policy: Policy, held: Allocations, own: Grant) -> bool:
    """Return whether another container or pod has devices of this one: the policy counts these as given to both."""
    held = held.with_grants(*_as_grants(held.holdings, own))
    theirs = [device for grant in held.grants for device in grant.devices]
    # Of two that were asked for by resources the policy counts the amounts.
    by_costs = HeldHardware(policy.known, by_cost(theirs))
    every = HeldHardware(policy.known, theirs)
    if any((every if mine.cost_name else by_costs).overlap(mine) for mine in own.devices):
        return True
    counted = policy.reinstate(held.with_grants(own)).allocations
    after = {grant.container: grant.devices for grant in counted.grants}
    return any(after.get(grant.container) != grant.devices for grant in (*held.grants, own))


def _as_grants(holdings: Iterable[DeviceHolding], own: Grant) -> Iterator[Grant]:
    """Yield what others hold without a grant, as what is kept for their pods, in the form of this one."""
    for each in holdings:
        if each.pod_uid != own.container.pod_uid:
            other = replace(own.request, container=ContainerKey(each.pod_uid, each.holder))
            yield replace(own, request=other, devices=each.devices)


def _is_free(held: Allocations, grant: Grant) -> bool:
    """Return whether no other container owns these CPUs: the present owner keeps them; a pod's may share its CPUs."""
    others = (g for g in held.grants if g.container != grant.container and not g.shares_cpus_with(grant))
    return all(g.owned.isdisjoint(grant.owned) for g in others)
