"""Zones of huge pages: at home, on the nearest nodes with enough of them, on any, or refused."""

from dataclasses import replace

import pytest

from policies.base import Grant, HugePageLimit, Request
from policies.preferences import HugePageNodes
from policies.topology_aware.memory.hugepages import huge_page_ranks, plan_huge_pages, spread_nodes
from policies.topology_aware.reason_codes import ReasonCode
from tests.fakes.machines import small_machine
from tests.unit.policies.build import GUARANTEED, supply_of, tree_of
from tests.unit.policies.memory.build import GIB, PMEM, at, mask, wanting

# Nodes 0-1 and 2-3 share a package; pages of 1 GiB on nodes 0 (2), 2 (1) and 3 (4).
TREE = tree_of(small_machine(nodes=2, memory="8Gi", hugepages={"1Gi": [2, 0, 1, 4]}))
ALL = mask("0-3")


def asking(gibibytes: int, name: str = "a", **preferences: object) -> Request:
    request = wanting(name, 0, GUARANTEED, **preferences)
    return replace(request, huge_pages=(HugePageLimit(GIB, gibibytes * GIB),))


def zone_of(request: Request, home: str, *grants: Grant, pool: int = ALL) -> tuple[str, ReasonCode]:
    found = plan_huge_pages(supply_of(TREE, *grants).memory, request, mask(home), pool)
    nodes = ",".join(str(node) for node in range(4) if found.zone >> node & 1)
    (reason,) = found.reasons or ((found.refused,) if found.refused else ())
    return nodes, ReasonCode(reason.code)


@pytest.mark.parametrize(
    ("gibibytes", "home", "zone", "code"),
    [
        (2, "0", "0", ReasonCode.HUGE_PAGES),
        (2, "1", "0,1", ReasonCode.HUGE_PAGES_WIDENED),  # the other node of the package
        (4, "0", "0,3", ReasonCode.HUGE_PAGES_WIDENED),  # of two at the same distance, and one of them is enough
        (4, "1", "0,1,3", ReasonCode.HUGE_PAGES_WIDENED),  # the nearest has too few
        (7, "1", "0,1,2,3", ReasonCode.HUGE_PAGES_WIDENED),
        (8, "1", "0,1,2,3", ReasonCode.HUGE_PAGES_SHORT),
    ],
)
def test_a_zone_is_widened_to_the_nearest_nodes_with_enough(
    gibibytes: int, home: str, zone: str, code: ReasonCode
) -> None:
    assert zone_of(asking(gibibytes), home) == (zone, code)


def test_what_is_promised_to_others_is_not_there() -> None:
    other = at("root", asking(2, "b"), "0")
    assert zone_of(asking(1), "0", other) == ("0,2", ReasonCode.HUGE_PAGES_WIDENED)
    assert zone_of(asking(1), "0", at("root", asking(2, "b"), "0,3")) == ("0", ReasonCode.HUGE_PAGES)


def test_who_may_have_them_anywhere_gets_every_node_that_has_some() -> None:
    anywhere = asking(1, huge_pages=HugePageNodes.SPREAD)
    assert zone_of(anywhere, "1") == ("0,1,2,3", ReasonCode.HUGE_PAGES_WIDENED)
    assert spread_nodes(supply_of(TREE).memory, anywhere) == mask("0,2-3")
    assert spread_nodes(supply_of(TREE).memory, asking(1)) == 0


def test_a_strict_preference_stays_in_its_pool() -> None:
    strict = asking(3, strict_huge_pages=True)
    assert zone_of(strict, "2", pool=mask("2-3")) == ("2,3", ReasonCode.HUGE_PAGES_WIDENED)
    assert zone_of(strict, "0", pool=mask("0-1"))[1] is ReasonCode.STRICT_HUGE_PAGES


def test_kinds_of_memory_that_are_strict_are_strict_for_huge_pages_too() -> None:
    only_pmem = asking(1, strict_memory=True, memory_kinds=(PMEM,))
    assert zone_of(only_pmem, "1") == ("1", ReasonCode.HUGE_PAGES_SHORT)


@pytest.mark.parametrize(("home", "rank"), [("0", 1), ("2-3", 2), ("3", 2)])
def test_pools_whose_nodes_have_them_are_better(home: str, rank: int) -> None:
    assert huge_page_ranks(supply_of(TREE).memory, asking(4), {mask(home)}) == {mask(home): rank}


def test_where_there_are_too_few_no_pool_is_better() -> None:
    homes = {mask("0"), mask("3"), mask("0-3")}
    assert huge_page_ranks(supply_of(TREE).memory, asking(8), homes) == dict.fromkeys(homes, 0)


def test_a_size_that_the_machine_does_not_have_is_said_to_be_missing() -> None:
    other_size = replace(wanting("a", 1), huge_pages=(HugePageLimit(2 << 20, GIB),))
    for wanted, text in (
        (other_size, "this machine has no 2Mi huge pages: it gets memory node 0"),
        (asking(8), "this machine does not have 8 GiB of 1Gi huge pages left that are not promised to others"),
    ):
        (why,) = plan_huge_pages(supply_of(TREE).memory, wanted, mask("0"), ALL).reasons
        assert why.text.startswith(text)
