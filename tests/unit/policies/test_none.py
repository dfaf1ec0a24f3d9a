from dataclasses import replace

from policies.base import Allocations, CpuKind, Grant, Pinning
from policies.device_grants import DeviceGrant
from policies.none import NonePolicy
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import listed
from tests.fakes.machines import small_machine
from tests.unit.policies.build import before, options, placed, request
from tests.unit.policies.cost_devices import GPU, asked

MACHINE = small_machine()
POLICY = NonePolicy(MACHINE, options(MACHINE))
OWNER = Grant(request("o/c", 2000), "socket #0", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0-1"))
UNTOUCHED = Grant(request("u/c"), "", CpuKind.PRESERVE)


def test_every_container_is_left_alone() -> None:
    decision = placed(POLICY.decide(Allocations(), request("a/c", 2000)))
    assert decision.grant.kind is CpuKind.PRESERVE
    assert (decision.pinning, decision.updates) == (Pinning(None, None), ())
    assert POLICY.fallback(Allocations()) == Pinning(None, None)


def test_what_another_policy_granted_is_let_go() -> None:
    found = POLICY.reinstate(Allocations().with_grants(OWNER, UNTOUCHED), [request("n/c", 1000)])
    assert [g.kind for g in found.allocations.grants] == [CpuKind.PRESERVE] * 3
    assert found.kept == (UNTOUCHED.container,)
    assert [k.pod_uid for k, _ in found.replaced] == ["n", "o"]
    assert set(POLICY.pinnings(found.allocations).values()) == {Pinning(None, None)}


def test_a_release_touches_nobody() -> None:
    assert POLICY.release(Allocations().with_grants(OWNER, UNTOUCHED), OWNER.container) == ()


def test_the_only_pool_is_the_machine() -> None:
    (root,) = POLICY.pools(Allocations())
    assert (root.name, root.shared) == ("root", MACHINE.online)


def test_devices_are_not_chosen_and_stay_with_containers_that_have_them() -> None:
    holder = Grant(request("h/c", devices=asked(gpu=1)), "root", CpuKind.SHARED, devices=listed(f"{GPU}/0"))
    had = replace(before("root"), devices=listed(f"{GPU}/1"))
    assert placed(POLICY.decide(Allocations(), request("a/c", devices=asked(gpu=1)))).grant.devices == ()
    found = POLICY.reinstate(Allocations().with_grants(holder, OWNER), [request("n/c", previous=had), request("x/c")])
    assert [grant.devices for grant in found.allocations.grants] == [listed(f"{GPU}/0"), listed(f"{GPU}/1"), (), ()]
    again = POLICY.reinstate(found.allocations, [request("h/c")])
    assert again.allocations.grants[0].devices == listed(f"{GPU}/0")


def test_devices_that_others_chose_are_counted_and_a_new_size_changes_none() -> None:
    given = DeviceGrant("gpu", 0, 100, is_given=True)
    grant = placed(POLICY.decide(Allocations(), request("a/c", given=(given,)))).grant
    assert grant.devices == (given,)
    holder = Grant(request("h/c"), "", CpuKind.PRESERVE, devices=(*listed(f"{GPU}/0"), given))
    held = Allocations((holder,))
    assert placed(POLICY.decide(held, request("h/c", 1000, previous=holder.as_running))).grant.devices == holder.devices
    assert not placed(POLICY.decide(held, request("h/c", 1000, previous=holder.as_previous))).grant.devices
