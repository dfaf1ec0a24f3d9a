import pytest

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.home import after_cold_start, home_zone, in_pool, is_ours
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import supply_of, tree_of
from tests.unit.policies.memory.build import DRAM, PMEM, at, mask, tiered, wanting

TIERED = tree_of(tiered())
SUPPLY = supply_of(TIERED)
COLD = at("socket #1", wanting("a", 1, cold_start_seconds=60), "3", is_cold=True)


def test_a_grant_belongs_in_the_home_zone_of_its_pool() -> None:
    assert home_zone(SUPPLY, at("socket #0", wanting("a", 1), "0-3")) == mask("0,2")
    assert home_zone(SUPPLY, COLD) == mask("3")


@pytest.mark.parametrize(
    "grant",
    [
        at("root", wanting("a", 1), ""),
        at("root", wanting("a", 1, preserve_memory=True), "0"),
        Grant(wanting("a", 1, preserve_cpu=True), "", CpuKind.PRESERVE, mems=NodeSet.parse("0")),
    ],
)
def test_memory_that_is_not_ours_belongs_nowhere(grant: Grant) -> None:
    assert not is_ours(grant)
    assert home_zone(SUPPLY, grant) == 0


def test_a_lifted_grant_keeps_its_nodes_and_gets_those_of_the_wider_pool() -> None:
    lifted = in_pool(SUPPLY, at("socket #0", wanting("a", 1, memory_kinds=(DRAM,)), "0,4"), "root")
    assert (lifted.pool, str(lifted.mems)) == ("root", "0-1,4")
    assert str(in_pool(SUPPLY, COLD, "root").mems) == "2-3"
    assert not in_pool(SUPPLY, at("socket #0", wanting("a", 1), ""), "root").mems


def test_what_is_lifted_within_a_strict_wish_stays_within_it() -> None:
    strict = at("socket #0", wanting("a", 1, memory_kinds=(PMEM,), strict_memory=True), "2")
    assert str(in_pool(SUPPLY, strict, "root").mems) == "2-3"


def test_the_end_of_a_cold_start_brings_dram() -> None:
    warm = after_cold_start(SUPPLY, COLD)
    assert (str(warm.mems), warm.is_cold) == ("1,3", False)
    assert str(after_cold_start(SUPPLY, at("socket #1", COLD.request, "2-3", is_cold=True)).mems) == "1-3"


def test_owned_cpus_do_not_change_where_memory_belongs_without_hints() -> None:
    owner = at("socket #0", wanting("a", 1), "0,2", kind=CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("1"))
    assert home_zone(SUPPLY, owner) == mask("0,2")
