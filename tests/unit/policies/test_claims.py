"""CPUs that another allocator has chosen: when two containers mean the same ones."""

from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet, NodeSet


def test_claims_are_the_same_where_their_source_and_their_cpus_are() -> None:
    claim = CpuClaim(CpuSet.parse("0-3"), "DRA_CPUSET_a")
    assert claim == CpuClaim(CpuSet.parse("0,1-3"), "DRA_CPUSET_a")
    assert claim != CpuClaim(CpuSet.parse("0-3"), "DRA_CPUSET_b")


def test_without_nodes_a_claim_leaves_memory_to_the_cpus() -> None:
    assert CpuClaim(CpuSet.parse("0-3"), "DRA_CPUSET_a").mems == NodeSet()
