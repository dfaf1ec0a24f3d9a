"""How good the places are that the policy chooses. Run: python benchmarks/placement.py [SEEDS].

Random histories on machines of several shapes; an oracle that shares no code with the policy says what was possible
(``placement_oracle``). Prints one line for each measure, with the bound that it has to keep.
"""

import random
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.placement_machines import FILLED, PACKED, SHAPES
from benchmarks.placement_measures import MEASURES, Tally, basis_of, value_of
from benchmarks.placement_node import FULL, GIBIBYTE, STEPS, Node, container, history, some_container
from benchmarks.placement_oracle import Oracle, Promise
from benchmarks.placement_resizes import lives
from benchmarks.placement_spread import EQUAL, PODS, apart, beside_kubelet, evenly
from cri_proxy.cri.read_request import read_create
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodAmounts, PodSpec, create_request
from policies.base import CpuKind, Grant, Placed, QosClass, Request
from policies.preferences import PoolStrategy
from sysfs.cpuset import CpuSet


def owners(tally: Tally, seeds: int) -> None:
    """Exclusive placements against the oracle."""
    for name, description in SHAPES.items():
        for seed in range(seeds):
            node = Node(description)
            for grant, free, promises in history(node, random.Random(f"{name} {seed}")):
                # A fraction needs room in the same pool, of which the oracle knows nothing.
                if grant.owned and not grant.shared_mcpu:
                    judge_owner(tally, node, grant, Oracle(node.shape, free, promises))


def judge_owner(tally: Tally, node: Node, grant: Grant, oracle: Oracle) -> None:
    """Compare one placement with the best one, and the cores that it broke with the fewest."""
    cpus, shape = grant.owned.mask, node.shape
    real = shape.cost_of(cpus)
    moved_up = Oracle(shape, oracle.free, [Promise(shape.machine.online.mask, node.shared_mcpu(), is_used=True)])
    newly = sum(1 for core in shape.cores if core & cpus and core & ~cpus and not core & ~oracle.free)
    # Before others move, pools whose containers book no CPU time may be emptied.
    best = oracle.best(cpus.bit_count()) or oracle.emptied().best(cpus.bit_count())
    moved = moved_up.best(cpus.bit_count())
    # An odd thread beside an owner is no reason to leave the fewest domains: those come first.
    tally.add("newly shared cores", newly, (best or moved or real).newly_shared)
    if real.nodes == 1 and real.caches == 1:
        return
    if best is None:  # only once containers that share had moved up
        tally.add("more nodes after moves", moved is not None and real[:2] > moved[:2])
        return
    homes = sum(1 << n for n, mask in shape.nodes.items() if mask & cpus)
    tally.add("more packages", real.packages > best.packages)
    tally.add("more nodes", real[:2] > best[:2])
    tally.add("more caches", real[:3] > best[:3])
    tally.add("torn cores", real[:3] == best[:3] and real.stranger_cores > best.stranger_cores)
    tally.add("farther nodes", real[:4] == best[:4] and real.distance > best.distance)
    if not grant.shared_mcpu:  # one with a fraction runs on the shared CPUs of its pool too
        tally.add("memory elsewhere", bool(grant.mems) and grant.mems.mask != homes)


def domains_beside_sharers(tally: Tally, seeds: int) -> None:
    """A small container on every domain; then three that want a domain each."""
    for qos, mcpu in ((QosClass.BURSTABLE, 100), (QosClass.BEST_EFFORT, 0)):
        node = Node({"packages": 2, "nodes": 2, "cores": 4, "threads": 2, "memory": "32Gi"})
        for number in range(8):
            node.place(container(number, qos, mcpu, memory_gib=0.05))
        for number in range(8, 11):
            grant = node.place(container(number, QosClass.GUARANTEED, 8000))
            tally.add("whole domain", grant is not None and grant.owned.mask in node.shape.nodes.values())


# Slow checks, of 30 seconds each, from one step of a history to the next: a container comes or goes every minute.
CHECKS_PER_STEP = 2


def sharers(tally: Tally, seeds: int) -> None:
    """What containers that share have in the course of histories, with the daemon's slow checks in between.

    These rows are about the steady state: an owner may come next to sharers, or take the CPUs that they spread over,
    because owners never move afterwards. Sharers do, a few at each slow check, and what counts is how long they wait.
    """
    for name, description in SHAPES.items():
        for seed in range(seeds):
            node = Node(description)
            for _ in history(node, random.Random(f"sharers {name} {seed}")):
                for _ in range(CHECKS_PER_STEP):
                    node.slow_check()
                judge_sharers(tally, node)
            tally.add("spread of load", spread_of_load(node))


def sharers_unchecked(tally: Tally, seeds: int) -> None:
    """What they have without any slow check: by placements alone."""
    for name, description in SHAPES.items():
        for seed in range(seeds):
            node = Node(description)
            for _ in history(node, random.Random(f"sharers {name} {seed}")):
                judge_sharers(tally, node, " unchecked")


def judge_sharers(tally: Tally, node: Node, when: str = "") -> None:
    """Count a Burstable container below its limit, or best effort on two CPUs, while a node has room."""
    pinned = node.policy.pinnings(node.held)
    free = node.free
    homes = [(mask & free).bit_count() for mask in node.shape.nodes.values()]
    booked = [sum(p.mcpu for p in node.promises() if not p.cpus & ~mask) for mask in node.shape.nodes.values()]
    idle = max(cpus - -(-mcpu // 1000) for cpus, mcpu in zip(homes, booked, strict=True))
    for grant in node.held.grants:
        if grant.kind is not CpuKind.SHARED:
            continue
        cpus = len(pinned[grant.container].cpus or ())
        limit = grant.request.cpu_limit_mcpu
        match grant.request.pod.qos:
            case QosClass.BURSTABLE if limit is not None:
                tally.add("squeezed" + when, 1000 * cpus < limit <= 1000 * max(homes))
            case QosClass.BEST_EFFORT:
                tally.add("best effort on two" + when, cpus <= 2 and idle >= 6)
            case _:
                pass


def spread_of_load(node: Node) -> float:
    """The load of the fullest node's shared CPUs less that of the emptiest's, above what other places would leave.

    Load is requested CPU per CPU. Where the owners are is given, and with it how many CPUs each node shares and the
    fractions that run there: half a CPU on a node with one shared CPU is a load of 0.5 wherever the others go.
    """
    free, pinned = node.free, node.policy.pinnings(node.held)
    cpus = {n: (mask & free).bit_count() for n, mask in node.shape.nodes.items() if mask & free}
    loads, fractions = dict.fromkeys(cpus, 0.0), dict.fromkeys(cpus, 0.0)
    for grant in node.held.grants:
        runs_on = (pinned[grant.container].cpus or CpuSet()).mask & free
        for n in cpus if grant.shared_mcpu else ():
            here = grant.shared_mcpu / 1000 * (runs_on & node.shape.nodes[n]).bit_count() / runs_on.bit_count()
            loads[n] += here
            fractions[n] += here if grant.owned else 0.0
    movable = [grant.shared_mcpu / 1000 for grant in node.held.grants if grant.kind is CpuKind.SHARED]
    return max(0.0, spread_of(loads, cpus) - spread_of(largest_first(fractions, cpus, movable), cpus))


def spread_of(loads: dict[int, float], cpus: dict[int, int]) -> float:
    """The greatest load per CPU less the least."""
    per_cpu = [loads[n] / cpus[n] for n in cpus]
    return max(per_cpu) - min(per_cpu)


def largest_first(loads: dict[int, float], cpus: dict[int, int], sharers: list[float]) -> dict[int, float]:
    """Put sharers on nodes, the largest first, each where the load is least with it."""
    result = dict(loads)
    for cpu in sorted(sharers, reverse=True):
        result[min(cpus, key=lambda n: (result[n] + cpu) / cpus[n])] += cpu
    return result


# Fields that tell places apart which are as good for a container that shares; less load than this is noise.
# As in policies/topology_aware/rebalance.py, section 7 of docs/placement.md.
_NO_PLACE = (
    *("previous", "isolated", "priority", "cpu_domains", "undisturbed", "cores"),
    *("squeezed", "pod", "expected", "used", "full", "left", "first"),
)
WORTH_MCPU = 50


def coming_home(tally: Tally, seeds: int) -> None:
    """How many containers that share a fresh decision places better when churn stops, and after the slow checks."""
    for name, description in SHAPES.items():
        for seed in range(seeds):
            node = Node(description)
            for _ in history(node, random.Random(f"coming home {name} {seed}")):
                pass
            sharers = [grant for grant in node.held.grants if grant.kind is CpuKind.SHARED]
            tally.add("away", sum(is_better_elsewhere(node, grant) for grant in sharers), len(sharers))
            for _ in range(len(sharers)):
                node.held = node.held.with_grants(*node.policy.narrowed(node.held))
                node.held = node.held.with_grants(*node.policy.better_places(node.held).grants)
            sharers = [grant for grant in node.held.grants if grant.kind is CpuKind.SHARED]
            tally.add("away after checks", sum(is_better_elsewhere(node, grant) for grant in sharers), len(sharers))


def is_better_elsewhere(node: Node, grant: Grant) -> bool:
    """Whether a fresh decision chooses another pool for a reason."""
    decision = node.policy.decide(node.held, replace(grant.request, previous=None))
    if not isinstance(decision, Placed) or decision.grant.pool == grant.pool or grant.is_overcommitted:
        return False
    keys = {pool.pool: pool.key for pool in decision.ranking}
    pairs = zip(keys[decision.grant.pool], keys[grant.pool], strict=True)
    gains = [(name, float(a) - float(b)) for (name, a), (_, b) in pairs if name not in _NO_PLACE and a != b]
    return bool(gains) and (gains[0][0] != "quiet" or gains[0][1] >= WORTH_MCPU)


def reserve(tally: Tally, seeds: int) -> None:
    """Containers of reserved namespaces among others: whether more is asked of the reserved CPUs than they have."""
    for name, description in SHAPES.items():
        for seed in range(seeds):
            rng, node, kept = random.Random(f"reserve {name} {seed}"), Node(description), list[Grant]()
            for number in range(STEPS // 2):
                if kept and rng.random() < 0.4:
                    node.remove(kept.pop(rng.randrange(len(kept))))
                    continue
                request = some_container(rng, number, node)
                if rng.random() < 0.3:
                    asked = container(number, QosClass.BURSTABLE, rng.choice((100, 500, 900, 1500, 3000)))
                    request = replace(asked, pod=replace(asked.pod, namespace="kube-system"))
                grant = node.place(request)
                kept += [grant] if grant is not None else []
                if grant is not None and grant.kind is CpuKind.RESERVED:
                    tally.add("reserve", is_crowded(node, grant.reserved_mcpu))
            for _ in range(len(node.held.grants)):
                node.slow_check()
            on_reserved = [g.reserved_mcpu for g in node.held.grants if g.kind is CpuKind.RESERVED and g.reserved_mcpu]
            tally.add("reserve after checks", any(is_crowded(node, mcpu) for mcpu in on_reserved))


def is_crowded(node: Node, mcpu: int) -> bool:
    """Whether the reserved CPUs are promised more than they have, and this much is free elsewhere."""
    promised = sum(grant.reserved_mcpu for grant in node.held.grants if grant.kind is CpuKind.RESERVED)
    free_mcpu = 1000 * node.free.bit_count() - node.shared_mcpu()
    return promised > 1000 * len(node.reserved) and free_mcpu >= mcpu


def expander(tally: Tally, seeds: int) -> None:
    """Two sockets, one of them with a memory expander: the CPU time that is asked for at each."""
    far = [{"memory": "256Gi", "near": {0: 14}}]
    node = Node({"packages": 2, "cores": 16, "threads": 2, "memory": "128Gi", "memory_nodes": far})
    for number in range(10):
        node.place(container(number, QosClass.GUARANTEED, 2000))
    used = [sum(len(g.owned & CpuSet(mask)) for g in node.held.grants) for mask in node.shape.packages.values()]
    tally.at_least("sockets", max(used) / max(1, min(used)))


def pods(tally: Tally, seeds: int) -> None:
    """Pods with resources of their own, as the kubelet words them: what is granted over what the pod requests."""
    for seed in range(seeds):
        rng, node = random.Random(f"pods {seed}"), Node(SHAPES["2 sockets, 2 nodes each"])
        for number in range(8):
            mcpu = rng.choice((1000, 2000, 4000))
            amounts = PodAmounts(mcpu, mcpu * rng.choice((1, 1, 4)), GIBIBYTE, GIBIBYTE)
            own = ContainerSpec("own", 500, 500, GIBIBYTE // 4) if rng.random() < 0.3 else ContainerSpec("c0")
            rest = tuple(ContainerSpec(f"c{i}") for i in range(1, rng.randint(2, 4)))
            pod = PodSpec(f"p{number}", (own, *rest), amounts=amounts)
            grants = [node.place(as_read(pod, container)) for container in pod.containers]
            held = [g for g in node.held.grants if g.container.pod_uid == pod.pod_uid]
            own_cpus = CpuSet.of_masks(g.owned.mask for g in held)
            booked = {g.container.name if not g.shares_cpus else "": g.shared_mcpu for g in held}
            if all(grants):
                tally.add("pods", 1000 * len(own_cpus) + sum(booked.values()), mcpu)


def resizes(tally: Tally, seeds: int) -> None:
    """Resizes of owners under all options: ten thousand with five seeds."""
    for resize in lives(2 * seeds):
        tally.add("resizes", not resize.is_right)


def filling_up(tally: Tally, seeds: int) -> None:
    """Owners at high load beside the kubelet's, equal containers at low load, and pods of an idle machine."""
    for shape, choice in product(FILLED, PoolStrategy):
        counts = [pair for seed in range(-(-seeds // 2)) for pair in beside_kubelet(shape, seed, choice)]
        ours, theirs = (sum(each) for each in zip(*counts, strict=True))
        tally.at_least("unlike kubelet", 100 * (ours - theirs) / len(counts))
    for shape, kind, choice in product(FILLED, EQUAL, (PoolStrategy.SPREAD, PoolStrategy.BALANCED)):
        for uneven in evenly(shape, kind, choice):
            tally.add("uneven", uneven)
    for shape, kind in product(FILLED, PODS):
        for is_apart in apart(shape, kind):
            tally.add("pods apart", is_apart)


def as_read(pod: PodSpec, container: ContainerSpec) -> Request:
    """The request of a container as it is read from CRI."""
    message = create_request(pod, container, "sandbox", node=KubeletNode(256 * GIBIBYTE))
    return read_create(message, message.sandbox_config, node_memory_bytes=256 * GIBIBYTE).request


def packing(tally: Tally, seeds: int) -> None:
    """Owners of up to half a domain come and go under ``pack``: who spans, and how large a one still fits."""
    for name, description in PACKED.items():
        for seed in range(seeds):
            rng = random.Random(f"pack {name} {seed}")
            node = Node(description, pool_choice=PoolStrategy.PACK)
            domains = [leaf.cpus for leaf in node.shape.leaves]
            most, kept = FULL * node.sharable.bit_count(), list[Grant]()
            for number in range(2 * STEPS):
                used = sum(len(grant.owned) for grant in kept)
                if kept and (used > most * rng.uniform(0.9, 1.1) or rng.random() < 0.3):
                    node.remove(kept.pop(rng.randrange(len(kept))))
                    continue
                size = rng.choice((1, 1, 2, 2, 3, 4, 4, 6, 8))
                grant = node.place(container(number, QosClass.GUARANTEED, 1000 * size, memory_gib=0.1))
                if grant is None:
                    continue
                kept.append(grant)
                if used > most * 0.8:  # the machine has filled up
                    tally.add("packed span", all(grant.owned.mask & ~domain for domain in domains))
                    tally.add("packed fits", max((domain & node.free).bit_count() for domain in domains))


def main(seeds: int) -> int:
    """Print the table; 1 when a bound is not kept."""
    tally = Tally()
    for play in (
        owners,
        domains_beside_sharers,
        sharers,
        sharers_unchecked,
        coming_home,
        packing,
        reserve,
        expander,
        pods,
        filling_up,
        resizes,
    ):
        play(tally, seeds)
    kept = True
    for measure in MEASURES:
        value = value_of(measure, tally)
        print(f"{measure.title:<66} {value:8.4f}  {basis_of(measure, tally):>16}  bound {measure.bound}", flush=True)
        kept = kept and measure.keeps(value)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
