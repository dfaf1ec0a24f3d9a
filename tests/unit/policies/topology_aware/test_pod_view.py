from dataclasses import replace

from policies.base import Allocations, CpuKind, Grant, Pinning, Update
from policies.pod_share import PodShare
from policies.topology_aware.pod_view import pod_view
from policies.topology_aware.supply.memory_account import promised_bytes
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import request

GIB = 1 << 30


def grant(name: str, share: PodShare | None = None, own_bytes: int = GIB) -> Grant:
    asked = request(name, 4000, memory_limit_bytes=own_bytes, memory_request_bytes=own_bytes)
    return Grant(asked, "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0-3"), share=share)


OTHER = grant("o/x")
A, B = (grant(f"p/{name}", PodShare(3000, 2 * GIB)) for name in "ab")
HELD = Allocations().with_grants(OTHER, A, B)


def test_without_containers_that_share_the_view_is_what_is_held() -> None:
    held = Allocations().with_grants(OTHER)
    view = pod_view(held)
    assert view.owners is held
    assert list(view.each((OTHER,))) == [OTHER]


def test_one_grant_stands_for_the_containers_of_a_pod_with_what_is_booked_for_all() -> None:
    view = pod_view(HELD)
    assert [g.container for g in view.owners.grants] == [OTHER.container, A.container]
    owner = view.owners.grants[1]
    assert (owner.share, owner.request.cpu_request_mcpu, promised_bytes(owner.request)) == (None, 3000, 2 * GIB)
    assert view.containers(B.container) == (A.container, B.container)


def test_each_container_gets_the_owners_grant_back_with_its_own_request() -> None:
    view = pod_view(HELD)
    moved = replace(view.owners.grants[1], pool="elsewhere")
    assert list(view.each((moved,))) == [replace(A, pool="elsewhere"), replace(B, pool="elsewhere")]
    assert all(g is own for g, own in zip(view.each((view.owners.grants[1],)), (A, B), strict=True))


def test_memory_that_a_container_has_itself_is_promised_besides() -> None:
    held = Allocations().with_grants(grant("p/a", PodShare(3000, 2 * GIB)), grant("p/b", PodShare(3000), own_bytes=GIB))
    assert promised_bytes(pod_view(held).owners.grants[0].request) == 3 * GIB


def test_a_memory_limit_that_only_memory_is_shared_of_is_promised_once() -> None:
    held = Allocations().with_grants(*(grant(f"p/{name}", PodShare(None, 2 * GIB)) for name in "abc"))
    view = pod_view(held)
    assert [promised_bytes(g.request) for g in view.owners.grants] == [2 * GIB, 0, 0]
    assert [g.request.cpu_request_mcpu for g in view.owners.grants] == [4000] * 3


def test_an_owner_that_has_not_changed_is_the_same_object() -> None:
    view = pod_view(HELD)
    again = pod_view(HELD.without(OTHER.container), view)
    assert again.owners.grants[0] is view.owners.grants[1]


def test_updates_are_in_the_order_of_containers_where_one_of_the_pod_does_not_share() -> None:
    between = grant("p/b")
    first, last = (grant(f"p/{name}", PodShare(3000, 2 * GIB)) for name in "ac")
    view = pod_view(Allocations().with_grants(first, between, last))
    shared, own = Pinning(CpuSet.parse("0-3")), Pinning(CpuSet.parse("4"))
    found = view.updates((Update(first.container, shared), Update(between.container, own)))
    assert found == (
        Update(first.container, shared),
        Update(between.container, own),
        Update(last.container, shared),
    )
