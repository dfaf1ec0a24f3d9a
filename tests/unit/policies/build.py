"""Short ways to build requests, policies and allocations for the tests of policies."""

from dataclasses import replace

from policies.base import (
    Affinity,
    Allocations,
    ContainerKey,
    Decision,
    Expression,
    Grant,
    Placed,
    Pod,
    Previous,
    QosClass,
    Rejected,
    Request,
)
from policies.hardware.pools import PoolTree, build_pools
from policies.preferences import Preferences
from policies.topology_aware import TopologyAware, TopologyAwareOptions
from policies.topology_aware.policy import L3_POOLS
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import demand_of
from policies.topology_aware.supply.supply import Supply, empty_supply
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import small_machine

GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT


def options(machine: Machine, reserved: str = "", **keys: object) -> TopologyAwareOptions:
    """Options with every online CPU available."""
    plain = TopologyAwareOptions(available=machine.online, reserved=CpuSet.parse(reserved))
    return replace(plain, **keys)  # type: ignore[arg-type]  # the keys are those of the class


def topology_aware(machine: Machine, reserved: str = "", **keys: object) -> TopologyAware:
    return TopologyAware(machine, options(machine, reserved, **keys))


def tree_of(machine: Machine, reserved: str = "", **keys: object) -> PoolTree:
    chosen = options(machine, reserved, **keys)
    return build_pools(machine, chosen, l3_pools=L3_POOLS[chosen.l3_pools])


def supply_of(tree: PoolTree, *grants: Grant, withheld: str = "") -> Supply:
    return empty_supply(tree, CpuSet.parse(withheld).mask).plus(*grants)


def context_of(tree: PoolTree, wanted: Request, *grants: Grant, **keys: object) -> PlacementContext:
    chosen = options(tree.machine, **keys)  # type: ignore[arg-type]  # reserved or options
    demand = demand_of(wanted, chosen, tree.threads_per_core)
    return PlacementContext(tree, chosen, supply_of(tree, *grants), grants, wanted, demand)


def request(name: str = "p/c", mcpu: int = 0, qos: QosClass = GUARANTEED, **keys: object) -> Request:
    """A request of ``POD/CONTAINER``; other fields and preferences go by their names."""
    pod, _, container = name.rpartition("/")
    namespace, pod_labels = keys.pop("namespace", "default"), keys.pop("pod_labels", ())
    preferences = {k: keys.pop(k) for k in list(keys) if k in Preferences.__dataclass_fields__}
    plain = Request(
        ContainerKey(pod, container),
        Pod(pod, pod, str(namespace), qos, pod_labels),  # type: ignore[arg-type]  # given as the field wants it
        mcpu,
        preferences=Preferences(**preferences),  # type: ignore[arg-type]  # the keys are those of the class
    )
    return replace(plain, **keys)  # type: ignore[arg-type]  # the keys are those of the class


def wish_for(container: str, weight: int = 1) -> tuple[Affinity, ...]:
    """An affinity towards the container of this name in the same pod."""
    return (Affinity(Expression("name", "In", (container,)), weight),)


def before(pool: str, owned: str = "", *added: str) -> Previous:
    return Previous(pool, CpuSet.parse(owned), tuple(CpuSet.parse(cpus) for cpus in added))


def placed(decision: Decision) -> Placed:
    match decision:
        case Placed():
            return decision
        case Rejected():
            raise AssertionError(decision.reason.text)


def rejected(decision: Decision) -> Rejected:
    match decision:
        case Rejected():
            return decision
        case Placed():
            raise AssertionError(f"placed in {decision.grant.pool}")


def fill(policy: TopologyAware, *requests: Request, held: Allocations | None = None) -> Allocations:
    result = held or Allocations()
    for one in requests:
        decision = placed(policy.decide(result, one))
        result = result.with_grants(*decision.moved, decision.grant)
    return result


def cpus(policy: TopologyAware, held: Allocations, name: str) -> str:
    """The CPU list that ``POD/CONTAINER`` is pinned to."""
    pod, _, container = name.rpartition("/")
    pinning = policy.pinnings(held)[ContainerKey(pod, container)]
    return "unpinned" if pinning.cpus is None else str(pinning.cpus)


def four_nodes(**keys: object) -> Machine:
    """2 packages of 2 nodes of 2 cores with 2 threads: nodes 0-3, 4-7, 8-11, 12-15."""
    return small_machine(nodes=2, **keys)
