from dataclasses import replace

import pytest

from policies.alignment import Alignment
from policies.base import CpuKind, Grant
from policies.topology_aware.supply.memory_account import (
    aligned_zone,
    empty_account,
    estimated_free,
    promise_of,
    promised_bytes,
    promises_of,
    wanted_kinds,
)
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import NodeSet
from tests.unit.policies.build import BEST_EFFORT, GUARANTEED
from tests.unit.policies.memory.build import DRAM, GIB, PMEM, at, mask, tiered, wanting

NODES = memory_nodes_of(tiered())


def test_the_request_counts_and_the_limit_where_there_is_none() -> None:
    limited = replace(wanting("a", 1), memory_limit_bytes=3 * GIB)
    assert promised_bytes(limited) == GIB
    assert promised_bytes(replace(limited, memory_request_bytes=0)) == 3 * GIB
    assert promised_bytes(wanting("b", 0, BEST_EFFORT)) == 0


def test_who_asks_for_no_kind_wants_every_kind_but_hbm() -> None:
    assert wanted_kinds(wanting("a")) == (DRAM, PMEM)
    assert wanted_kinds(wanting("a", memory_kinds=(PMEM,))) == (PMEM,)


@pytest.mark.parametrize(
    ("grant", "zone", "widest"),
    [
        (at("root", wanting("a"), "0"), "0", "0-4"),
        (at("root", wanting("a", strict_memory=True), "0"), "0", "0-3"),
        (at("root", wanting("a", strict_memory=True, memory_kinds=(PMEM,)), "2"), "2", "2-3"),
        (at("root", wanting("a"), "2", is_cold=True), "2", "2-3"),
        (at("root", wanting("a"), "0-3", kind=CpuKind.RESERVED), "0-3", "0-3"),
        (at("root", wanting("a", preserve_memory=True), ""), "0-4", "0-4"),
        (at("root", wanting("a", preserve_memory=True), "0"), "0", "0"),
        (Grant(wanting("a", preserve_cpu=True), "", CpuKind.PRESERVE), "0-4", "0-4"),
        (at("root", wanting("a"), "0,9"), "0", "0-4"),
    ],
)
def test_a_zone_may_be_widened_as_far_as_its_wishes_allow(grant: Grant, zone: str, widest: str) -> None:
    promise = promise_of(NODES, grant)
    assert (promise.zone, promise.widest) == (mask(zone), mask(widest))


@pytest.mark.parametrize(
    ("zone", "gibibytes", "left"),
    [
        ("0", 3, (1, 4, 16, 16, 1)),
        ("0-1", 2, (3, 3, 16, 16, 1)),
        ("0,2", 4, (0, 4, 16, 16, 1)),
        ("0,2", 6, (0, 4, 14, 16, 1)),  # what the nodes with CPUs have no room for is on the others
        ("0-3", 24, (0, 0, 8, 8, 1)),
        ("0,2", 99, (0, 4, 0, 16, 1)),
    ],
)
def test_a_promise_is_estimated_to_lie_on_nodes_with_cpus_before_others_and_evenly(
    zone: str, gibibytes: int, left: tuple[int, ...]
) -> None:
    free = estimated_free(NODES, [(mask(zone), gibibytes * GIB)])
    assert free == dict(enumerate(amount * GIB for amount in left))


def test_promises_come_and_go_without_a_trace() -> None:
    promises = promises_of(NODES, [at("root", wanting("a", 1), "0"), at("root", wanting("b", 2, GUARANTEED), "0-1")])
    empty = empty_account(NODES)
    full = empty.plus(*promises)
    assert full.zones == ((mask("0"), GIB), (mask("0-1"), 2 * GIB))
    assert full.widest == ((NODES.every, 3 * GIB),)
    assert full.minus(promises[0]).minus(promises[1]) == empty
    assert empty.plus(promises[1]).plus(promises[0]) == full


def test_who_is_promised_nothing_changes_nothing() -> None:
    empty = empty_account(NODES)
    assert empty.plus(promise_of(NODES, at("root", wanting("a"), "0"))) is empty


def test_an_account_tells_whether_it_holds() -> None:
    promises = promises_of(NODES, [at("root", wanting("a", 5), "0"), at("root", wanting("b", 17), "0-1")])
    account = empty_account(NODES)
    assert (account.holds, account.plus(*promises).holds) == (True, False)
    assert account.plus(*promises_of(NODES, [at("root", wanting("a"), "0")])).holds


@pytest.mark.parametrize(("mems", "zone"), [("0-1", "0-1"), ("1,9", "1"), ("9", "0-4")])
def test_memory_is_on_the_nodes_of_the_merge_that_are_there(mems: str, zone: str) -> None:
    """All count where none is left, as without a merge."""
    aligned = replace(wanting("a"), alignment=Alignment(NodeSet(), NodeSet.parse(mems)))
    assert aligned_zone(NODES, aligned) == mask(zone)
    assert aligned_zone(NODES, wanting("a")) == NODES.every
