from policies.base import Allocations, CpuKind, Grant, Pinning
from policies.none import NonePolicy
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import options, placed, request

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
