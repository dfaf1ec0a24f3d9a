from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Previous, QosClass, Reason, Reinstated
from policies.claims import CpuClaim
from policies.device_requests import DeviceAmount, DeviceAsk
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import request

NAMES = st.lists(st.sampled_from(["a/x", "a/y", "b/x", "c/z", "d/d"]), max_size=8)


def grant(name: str, mcpu: int = 0) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, shared_mcpu=mcpu)


@given(NAMES)
def test_grants_are_sorted_by_container_and_the_later_one_replaces_the_earlier(names: list[str]) -> None:
    held = Allocations().with_grants(*(grant(n, i) for i, n in enumerate(names)))
    expected = {grant(n).container: i for i, n in enumerate(names)}
    assert {g.container: g.shared_mcpu for g in held.grants} == expected
    assert [g.container for g in held.grants] == sorted(expected)


def test_a_grant_is_found_by_its_container() -> None:
    held = Allocations().with_grants(grant("a/x", 1), grant("b/x", 2))
    assert held.get(ContainerKey("b", "x")) == grant("b/x", 2)
    assert held.get(ContainerKey("b", "a")) is None


def test_going_without_a_container_that_holds_nothing_changes_nothing() -> None:
    held = Allocations().with_grants(grant("a/x"))
    assert held.without(ContainerKey("zz", "x")) is held
    assert held.without(ContainerKey("a", "x")).grants == ()


def test_withheld_cpus_stay_withheld() -> None:
    held = Allocations(withheld=CpuSet.parse("3")).with_grants(grant("a/x"))
    assert held.without(ContainerKey("a", "x")).withheld == CpuSet.parse("3")


def test_a_grant_owns_its_exclusive_and_its_isolated_cpus() -> None:
    both = Grant(request(), "root", CpuKind.MIXED, exclusive=CpuSet.parse("1"), isolated=CpuSet.parse("3"))
    assert str(both.owned) == "1,3"


def test_who_asks_for_cpu_time_and_shares_without_any_booked_is_overcommitted() -> None:
    asks = replace(request(), cpu_request_mcpu=1500)
    idle = replace(asks, cpu_request_mcpu=0, pod=replace(asks.pod, qos=QosClass.BEST_EFFORT))
    owner = Grant(asks, "root", CpuKind.EXCLUSIVE, CpuSet.parse("1"))
    grants = [Grant(asks, "root", CpuKind.SHARED), Grant(asks, "root", CpuKind.SHARED, shared_mcpu=1500), owner]
    grants += [Grant(idle, "root", CpuKind.SHARED), Grant(asks, "", CpuKind.PRESERVE)]
    grants += [Grant(replace(idle, cpu_request_mcpu=1500), "root", CpuKind.SHARED)]  # what its shares come to
    grants += [Grant(replace(asks, cpu_request_mcpu=1), "root", CpuKind.SHARED)]
    assert [grant.is_overcommitted for grant in grants] == [True, False, False, False, False, False, True]


def test_who_has_a_claim_and_shares_without_cpu_time_is_overcommitted_whatever_it_asks_for() -> None:
    claimed = replace(request(qos=QosClass.BEST_EFFORT), claim=CpuClaim(CpuSet.parse("1"), "an annotation"))
    assert Grant(claimed, "root", CpuKind.SHARED).is_overcommitted
    assert not Grant(claimed, "root", CpuKind.EXCLUSIVE, CpuSet.parse("1")).is_overcommitted


def test_what_became_of_reinstated_containers_is_sorted_by_container() -> None:
    a, b, c, d, e = (grant(name) for name in ("a/x", "a/y", "b/x", "c/z", "d/d"))
    why = Reason("added", "had no grant yet")
    found = Reinstated.of(
        Allocations().with_grants(a, b, c, d, e),
        replaced={d.container: why, a.container: why},
        unplaced={e.container: why, b.container: why},
    )
    assert found.kept == (c.container,)
    assert [key for key, _ in found.replaced] == [a.container, d.container]
    assert [key for key, _ in found.unplaced] == [b.container, e.container]


@pytest.mark.parametrize("kind", [CpuKind.RESERVED, CpuKind.PRESERVE])
def test_a_container_without_a_place_of_its_own_has_its_devices_to_keep(kind: CpuKind) -> None:
    bare = Grant(request("c"), "root", kind)
    assert bare.as_previous is bare.as_running is None
    held = replace(bare, devices=listed("x.io/gpu/gpu0"))
    assert held.as_previous == Previous("", CpuSet(), devices=held.devices)
    assert held.as_running == replace(held.as_previous, is_running=True)


def test_a_container_that_is_placed_elsewhere_keeps_its_devices_and_no_place() -> None:
    bare = Grant(request("c"), "root", CpuKind.SHARED)
    assert bare.as_elsewhere is None
    held = replace(bare, devices=listed("x.io/gpu/gpu0"))
    assert held.as_elsewhere == Previous("", CpuSet(), devices=held.devices, is_running=True)
    asking = replace(bare, request=request("c", devices=DeviceAsk((DeviceAmount("x.io/gpu", 1),))))
    assert asking.as_elsewhere == Previous("", CpuSet(), is_running=True)


def test_what_a_previous_grant_says_of_devices_is_without_a_place() -> None:
    place = Previous("root", CpuSet.parse("2-3"))
    assert place.of_devices is None
    assert replace(place, is_running=True).of_devices == Previous("", CpuSet(), is_running=True)
    assert replace(place, devices=listed("x.io/gpu/gpu0")).of_devices == Previous(
        "", CpuSet(), devices=listed("x.io/gpu/gpu0")
    )
