"""Random CPUs that another allocator has chosen for a container."""

import random

from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet
from sysfs.model import Machine


def random_claim(machine: Machine, rng: random.Random, pod: str) -> CpuClaim:
    """One of three sets of CPUs per pod: most often neighbours, which one pool has. One is in the pod's own words."""
    number = rng.randrange(3)
    fixed = random.Random(f"{pod}/{number}")
    cpus = list(machine.online | machine.offline)
    first, count = fixed.randrange(len(cpus)), fixed.choice((1, 1, 2, 2, 4))
    chosen = cpus[first : first + count] if fixed.random() < 0.7 else fixed.sample(cpus, min(count, len(cpus)))
    return CpuClaim(CpuSet.of(chosen), f"DRA_CPUSET_{pod}_{number}", by_pod=number == 0)
