import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.grant_text import GrantParts, GrantTextError, grant_parts_from_text, grant_to_text
from policies.alignment import Alignment, TopologyScope
from policies.base import ContainerKey, CpuKind, Grant, Pod, QosClass, Request
from policies.claims import CpuClaim
from policies.device_grants import DeviceGrant
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.device_policy import listed

REQUEST = Request(ContainerKey("u", "c"), Pod("u", "p", "n", QosClass.GUARANTEED), 2500)
GRANT = Grant(REQUEST, "NUMA node #1", CpuKind.MIXED, CpuSet.of([4, 5]), CpuSet(), 500, 0, NodeSet.of([1]))
SETS = st.sets(st.integers(0, 100)).map(CpuSet.of)


@given(st.text(max_size=20), st.sampled_from(CpuKind), SETS, SETS, st.integers(0, 9999), st.sets(st.integers(0, 9)))
def test_every_grant_reads_back(
    pool: str, kind: CpuKind, exclusive: CpuSet, isolated: CpuSet, mcpu: int, mems: set[int]
) -> None:
    grant = Grant(REQUEST, pool, kind, exclusive, isolated, mcpu, mcpu + 1, NodeSet.of(mems))
    assert grant_parts_from_text(grant_to_text(grant)) == GrantParts(
        pool, kind, exclusive, isolated, mcpu, mcpu + 1, NodeSet.of(mems)
    )


def test_the_order_in_which_cpus_came_reads_back() -> None:
    grown = replace(GRANT, added=(CpuSet.of([5]), CpuSet.of([4])))
    assert grant_parts_from_text(grant_to_text(grown)).added == grown.added


def test_the_nodes_that_it_is_kept_within_read_back() -> None:
    alignment = Alignment(NodeSet.of([1]), NodeSet.of([1, 2]), TopologyScope.POD, is_strict=True)
    kept = replace(GRANT, request=replace(REQUEST, alignment=alignment))
    assert grant_parts_from_text(grant_to_text(kept)).alignment == alignment


def test_the_text_is_one_short_line_that_people_can_read() -> None:
    assert grant_to_text(GRANT) == (
        '{"v":1,"pool":"NUMA node #1","kind":"mixed","exclusive":"4-5","isolated":"",'
        '"shared_mcpu":500,"reserved_mcpu":0,"mems":"1"}'
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"v": 3}, "v=2"),
        ({"kind": "stolen"}, "stolen"),
        ({"exclusive": "0-"}, "list"),
        ({"exclusive": 3}, "exclusive: expected CpuSet"),
        ({"shared_mcpu": "500"}, "expected int"),
        ({"shared_mcpu": True}, "expected int"),
        ({"added": "4-5"}, "added: expected a list"),
        ({"added": [4]}, r"added\[0\]: expected CpuSet"),
        ({"devices": [4]}, "devices: expected names"),
        ({"devices": ["a/b"], "allocated": 3}, "devices: expected a list"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(change: dict[str, object], problem: str) -> None:
    with pytest.raises(GrantTextError, match=problem):
        grant_parts_from_text(json.dumps(json.loads(grant_to_text(GRANT)) | change))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"v":1}', "[" * 100_000])
def test_garbage_is_refused_in_our_words(text: str) -> None:
    with pytest.raises(GrantTextError, match="grant annotation"):
        grant_parts_from_text(text)


def test_its_devices_read_back() -> None:
    devices = listed("example.com/gpu/gpu0", "example.com/nic/eth1")
    assert grant_parts_from_text(grant_to_text(replace(GRANT, devices=devices))).devices == devices


def test_devices_of_version_1_stood_in_two_lists() -> None:
    gpu = {"kind": "gpu", "minor": 0, "amount": 50}
    text = json.dumps(json.loads(grant_to_text(GRANT)) | {"v": 1, "devices": ["a.com/nic/eth0"], "allocated": [gpu]})
    assert grant_parts_from_text(text).devices == (*listed("a.com/nic/eth0"), DeviceGrant("gpu", 0, 50))


def test_a_grant_without_devices_is_one_of_version_1_that_an_older_program_reads_too() -> None:
    assert '"v":1,' in grant_to_text(GRANT)
    assert '"v":2,' in grant_to_text(replace(GRANT, devices=listed("a.com/nic/eth0")))


def test_the_claim_behind_it_reads_back() -> None:
    claim = CpuClaim(CpuSet.parse("0-1"), "DRA_CPUSET_a", NodeSet.parse("1"))
    claimed = replace(GRANT, request=replace(GRANT.request, claim=claim))
    assert grant_parts_from_text(grant_to_text(claimed)).claim == claim
    assert "claim" not in grant_to_text(GRANT)
