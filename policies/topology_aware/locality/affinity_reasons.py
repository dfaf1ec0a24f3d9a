"""Who draws a container to a pool or pushes it away, as sentences: the other half of a pool's affinity score."""

from policies.base import Allocations, Reason, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.locality.affinity import Pull, pulls
from policies.topology_aware.options import TopologyAwareOptions

AFFINITY = "affinity"


def affinity_reasons(
    tree: PoolTree, options: TopologyAwareOptions, held: Allocations, request: Request
) -> tuple[Reason, ...]:
    """A sentence for each of the strongest pulls and pushes, strongest first; its own grant in ``held`` is ignored."""
    others = held.without(request.container)
    return tuple(Reason(AFFINITY, _text(pull, others)) for pull in pulls(tree, options, request, others.grants))


def _text(pull: Pull, others: Allocations) -> str:
    grant = others.get(pull.container)
    name = pull.container.name
    if grant is not None:
        pod = grant.request.pod
        name = f"{pod.namespace}/{pod.name}/{name}"
    verb = "draws" if pull.weight > 0 else "pushes"
    towards = "to" if pull.weight > 0 else "from"
    return f"{name} {verb} it by {abs(pull.weight)} {towards} {pull.pool}: {pull.why}"
