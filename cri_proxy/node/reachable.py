"""Who can run on CPUs that were granted to somebody alone: containers whose cpuset is not ours to write."""

from collections.abc import Sequence

from cri_proxy.node.adoption import Left
from cri_proxy.node.ledger import Ledger
from cri_proxy.state.decisions import named
from cri_proxy.state.rows import Row


def unpinned(ledger: Ledger, left: Sequence[Left]) -> tuple[Left, ...]:
    """Containers whose cpuset we do not write: preserved ones, and ``left`` alone ones, each with its own CPUs."""
    desired = ledger.desired()
    ours = [
        Left(str(named(row.grant.request)), row.acknowledged.cpus if row.acknowledged is not None else None)
        for row in ledger.active()
        if (pinning := desired.get(row.key)) is not None and pinning.cpus is None
    ]
    return (*ours, *left)


def reachable_by(row: Row, others: Sequence[Left]) -> tuple[str, ...]:
    """Names of those among ``others`` that can run on CPUs which this container owns."""
    owned, own_name = row.grant.owned, str(named(row.grant.request))
    if not owned:
        return ()
    return tuple(o.name for o in others if o.name != own_name and (o.cpus is None or not o.cpus.isdisjoint(owned)))
