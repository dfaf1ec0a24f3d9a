"""How long it takes to place and to release one container. Run: python benchmarks/decision.py [ROUNDS].

A round decides on a container, takes the grant over, and works out its release again: what the daemon does under its
lock. Each round has allocations of its own, as every change makes new ones. Prints medians and 99th percentiles of
CPU time, and the median's ratio to a fixed pure-Python loop of the same process, by which machines can be compared.
"""

import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.base import Affinity, Allocations, ContainerKey, Expression, Placed, Pod, Policy, QosClass, Request
from policies.options import PolicyOptions
from policies.registry import build_policy
from policies.reserve import choose_reserved
from sysfs.describe import describe

MEDIUM = {"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"}
LARGE = {"packages": 8, "nodes": 4, "cores": 28, "threads": 2, "numbering": "split", "memory": "64Gi"}
REFERENCE_STEPS = 1_000_000
SIZES_MCPU = {QosClass.GUARANTEED: (500, 1000, 2000, 2500), QosClass.BURSTABLE: (50, 100, 250, 500)}
WISH = (Affinity(Expression("pod/labels/app", "In", ("a",)), -5, Expression("namespace", "Equals", ("default",))),)


@dataclass(frozen=True, slots=True)
class Load:
    """A machine with containers on it, and the bars of a round: median and 99th percentile, None = no bar."""

    title: str
    machine: dict[str, object]
    containers: int
    median_ms: float | None = None
    p99_ms: float | None = None
    affinities: bool = False
    full: bool = False  # the last CPUs are asked for, so that every pass of the decision runs


LOADS = (
    Load("256 CPUs, 8 nodes, 250 containers", dict(MEDIUM), 250, 2.0, 10.0),
    Load("the same, 500 containers", dict(MEDIUM), 500),
    Load("the same, 1000 containers", dict(MEDIUM), 1000),
    Load("the same, 250 containers, every one with an affinity", dict(MEDIUM), 250, affinities=True),
    Load("the same, 250 containers, asking for all that is left", dict(MEDIUM), 250, full=True),
    Load("1792 CPUs, 32 nodes, 1000 containers", dict(LARGE), 1000, 10.0, None),
)


def reference_seconds() -> float:
    """The time of a fixed loop of integer arithmetic."""
    start = time.process_time()
    total = 0
    for i in range(REFERENCE_STEPS):
        total = (total + i * i) & 0xFFFF
    return time.process_time() - start


def some_request(rng: random.Random, number: int, *, affinities: bool) -> Request:
    """A container of any class, in a pod of its own."""
    qos = rng.choice(list(QosClass))
    uid = f"{rng.randrange(1 << 40):010x}-{number}"
    return Request(
        ContainerKey(uid, "c"),
        Pod(uid, uid, "default", qos, (("app", rng.choice("ab")),)),
        rng.choice(SIZES_MCPU.get(qos, (0,))),
        memory_request_bytes=64 << 20,
        affinities=WISH if affinities else (),
    )


def filled(policy: Policy, load: Load, rng: random.Random) -> Allocations:
    """So many containers placed; owners take at most half of the machine, so that all find a place."""
    held, owned = Allocations(), 0
    most = len(policy.machine.online) // 2
    while len(held.grants) < load.containers:
        request = some_request(rng, len(held.grants), affinities=load.affinities)
        decision = policy.decide(held, request)
        if isinstance(decision, Placed) and owned + len(decision.grant.owned) <= most:
            owned += len(decision.grant.owned)
            held = held.with_grants(*decision.moved, decision.grant)
    return held


def asked(policy: Policy, held: Allocations, load: Load, rng: random.Random, number: int) -> Request:
    """The container of one round."""
    request = some_request(rng, number, affinities=load.affinities)
    if not load.full:
        return request
    left = policy.pools(held)[0].shared_free_mcpu // 1000 - rng.randrange(3)
    pod = Pod(request.pod.uid, request.pod.name, "default", QosClass.GUARANTEED)
    return Request(request.container, pod, 1000 * left)


def round_milliseconds(policy: Policy, held: Allocations, request: Request) -> float:
    """CPU time of placing and releasing this container."""
    mine = Allocations(held.grants, held.withheld)
    start = time.process_time()
    decision = policy.decide(mine, request)
    if isinstance(decision, Placed):
        policy.release(mine.with_grants(*decision.moved, decision.grant), request.container)
    return 1000 * (time.process_time() - start)


def measure(load: Load, rounds: int) -> bool:
    """Print the figures of one load; whether its bars are kept."""
    rng = random.Random(1)
    machine = describe(load.machine)
    options = PolicyOptions(machine.online, choose_reserved(machine, machine.online, 2000))
    policy = build_policy("topology-aware", machine, options)
    held = filled(policy, load, rng)
    times = [
        round_milliseconds(policy, held, asked(policy, held, load, rng, load.containers + n)) for n in range(rounds)
    ]
    middle, p99 = median(times), quantiles(times, n=100)[98]
    ratio = middle / 1000 / median(reference_seconds() for _ in range(3))
    bars = f"   (bars {load.median_ms} ms, {load.p99_ms or '-'} ms)" if load.median_ms else ""
    print(load.title)
    print(f"  median {middle:.2f} ms, p99 {p99:.2f} ms, {ratio:.4f} of a loop of {REFERENCE_STEPS} additions{bars}")
    kept = load.median_ms is None or middle <= load.median_ms
    return kept and (load.p99_ms is None or p99 <= load.p99_ms)


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [measure(load, rounds) for load in LOADS]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
