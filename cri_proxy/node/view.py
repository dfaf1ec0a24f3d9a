"""The node as others may look at it: ``http.view.DaemonView`` filled from the ledger and the journal."""

from collections.abc import Iterable, Sequence

from cri_proxy.config.model import Config
from cri_proxy.http.view import ContainerView, DecisionView, DisplacedView, ExplainView, Health, StatusView
from cri_proxy.node.adoption import Left
from cri_proxy.node.journal import DecisionRecord, Journal
from cri_proxy.node.ledger import ACTIVE
from cri_proxy.node.node import Node
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Placed, Request, Update
from sysfs.model import Machine

# A name or two tell an operator where to look; hundreds would hide the rest of the page.
REACHABLE_SHOWN = 4


class NodeView:
    """Reads, never changes. Every answer is made from one moment of the ledger."""

    def __init__(self, node: Node, journal: Journal, *, config: Config, name: str, warnings: tuple[str, ...]) -> None:
        """``warnings`` are about the configuration and stay for the life of the process."""
        self._node = node
        self._ledger = node.context.ledger
        self._journal = journal
        self._config = config
        self._name = name
        self._warnings = warnings

    def health(self) -> Health:
        """Alive while it answers; ready when decisions are made and nothing is degraded."""
        problems = []
        if not self._node.coordinator.is_ready:
            problems.append("the saved placements are not yet checked against the runtime")
        if self._node.context.persistence.problem:
            problems.append(f"the store fails: {self._node.context.persistence.problem}")
        return Health(is_alive=True, is_ready=not problems, problems=tuple(problems))

    def status(self) -> StatusView:
        """Pools and containers now."""
        allocations = self._ledger.allocations
        unpinned = self._unpinned()
        containers = [self._container(row, unpinned) for row in self._ledger.active()]
        containers.sort(key=lambda c: (c.namespace, c.pod, c.name))
        return StatusView(
            node=self._name,
            policy=self._ledger.policy.name,
            is_ready=self._node.coordinator.is_ready,
            pools=self._ledger.policy.pools(allocations),
            containers=tuple(containers),
            warnings=(*self._warnings, *self._present_warnings()),
        )

    def explain(self, pod: str, container: str | None) -> ExplainView:
        """The last decision about each container of this pod: what was refused, too."""
        requests: dict[ContainerKey, Request] = {r.request.container: r.request for r in self._journal.records()}
        requests |= {row.key: row.grant.request for row in self._ledger.active()}
        wanted = [
            request
            for key, request in requests.items()
            if pod in (request.pod.name, key.pod_uid) and container in (None, key.name)
        ]
        wanted.sort(key=lambda r: (r.pod.namespace, r.pod.name, r.container.name))
        return ExplainView(tuple(self._decision(request) for request in wanted))

    def topology(self) -> Machine:
        """The machine as discovered."""
        return self._ledger.policy.machine

    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    def _present_warnings(self) -> tuple[str, ...]:
        notes = [
            f"container {container_id[:12]} runs unplaced: deciding failed when it was created, see the log"
            for container_id in self._node.adoption.unplaced()
        ]
        notes += [
            f"{_name(row.grant.request)}: the runtime refuses its update: {failure.message}"
            for key, failure in sorted(self._node.effects.failures.items())
            if (row := self._ledger.get(key)) is not None
        ]
        return tuple(notes)

    def _unpinned(self) -> tuple[Left, ...]:
        """Containers whose cpuset is not ours to write: they can be on CPUs that others own (spec section 5)."""
        desired = self._ledger.desired()
        ours = [
            Left(_name(row.grant.request), row.acknowledged.cpus if row.acknowledged is not None else None)
            for row in self._ledger.active()
            if (pinning := desired.get(row.key)) is not None and pinning.cpus is None
        ]
        return (*ours, *self._node.adoption.left())

    def _container(self, row: Row, unpinned: Sequence[Left]) -> ContainerView:
        grant, request = row.grant, row.grant.request
        pinning = self._ledger.desired().get(row.key)
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
            cpus=pinning.cpus if pinning is not None else None,
            mems=pinning.mems if pinning is not None else None,
            exclusive=grant.exclusive,
            isolated=grant.isolated,
            shared_mcpu=grant.shared_mcpu,
            reserved_mcpu=grant.reserved_mcpu,
            notes=(*self._notes(row), *_reachable(row, unpinned)),
        )

    def _notes(self, row: Row) -> tuple[str, ...]:
        notes = []
        if row.container_id and self._ledger.differs(row):
            known = row.acknowledged
            notes.append(
                f"an update waits: the runtime has it on CPUs {known.cpus if known is not None else 'unknown'}"
            )
        if row.state == "pending":
            notes.append("the runtime has not said whether it was created")
        return tuple(notes)

    def _decision(self, request: Request) -> DecisionView:
        row = self._ledger.get(request.container)
        holds = self._container(row, self._unpinned()) if row is not None and row.state in ACTIVE else None
        record = self._journal.record_of(request.container)
        if record is None:
            return DecisionView(request, "restored", holds, None, 0.0)
        return self._recorded(record, holds)

    def _recorded(self, record: DecisionRecord, holds: ContainerView | None) -> DecisionView:
        decision = record.decision
        placed = isinstance(decision, Placed)
        return DecisionView(
            request=record.request,
            outcome="placed" if placed else "refused",
            container=holds,
            decided_at_seconds=record.decided_at_seconds,
            duration_seconds=record.seconds,
            reasons=decision.reasons if isinstance(decision, Placed) else (decision.reason,),
            ranking=decision.ranking,
            displaced=tuple(self._displaced(decision.updates)) if isinstance(decision, Placed) else (),
            moved=tuple(_name(g.request) for g in decision.moved) if isinstance(decision, Placed) else (),
            problems=record.problems,
        )

    def _displaced(self, updates: Iterable[Update]) -> Iterable[DisplacedView]:
        for update in updates:
            request = self._request_of(update.container)
            yield DisplacedView(
                namespace=request.pod.namespace if request is not None else "",
                pod=request.pod.name if request is not None else update.container.pod_uid,
                name=update.container.name,
                cpus=update.pinning.cpus,
                mems=update.pinning.mems,
            )

    def _request_of(self, key: ContainerKey) -> Request | None:
        row = self._ledger.get(key)
        if row is not None:
            return row.grant.request
        record = self._journal.record_of(key)
        return record.request if record is not None else None


def _reachable(row: Row, unpinned: Sequence[Left]) -> tuple[str, ...]:
    """A note on who else can run on CPUs that this container owns, and why."""
    owned, own_name = row.grant.owned, _name(row.grant.request)
    names = [u.name for u in unpinned if u.name != own_name and (u.cpus is None or not u.cpus.isdisjoint(owned))]
    if not owned or not names:
        return ()
    more = len(names) - REACHABLE_SHOWN
    shown = ", ".join(names[:REACHABLE_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return (f"its CPUs are reachable by: {shown} (not pinned by us)",)


def _name(request: Request) -> str:
    return f"{request.pod.namespace}/{request.pod.name}/{request.container.name}"
