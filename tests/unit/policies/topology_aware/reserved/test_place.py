"""Reserved containers elsewhere and back; what they do to whole placements is in ``../test_place_reserved``."""

from dataclasses import replace

from policies.base import CpuKind, Decision, Grant, Placed, Reason, Rejected
from policies.topology_aware.place import place
from policies.topology_aware.reserved.place import overflowed, with_reserved_back
from policies.topology_aware.supply.context import PlacementContext
from tests.unit.policies.build import BURSTABLE, context_of, four_nodes, placed, rejected, request, tree_of

TREE = tree_of(four_nodes(), "0")
NOWHERE = Rejected(Reason("cpu-full", "no room"))


def shared(context: PlacementContext) -> Decision:
    grant = Grant(context.request, "root", CpuKind.SHARED, shared_mcpu=context.demand.shared_mcpu)
    return Placed(grant, reasons=(Reason("pool", "root"),))


def nowhere(_: PlacementContext) -> Decision:
    return NOWHERE


def only_beside_few(context: PlacementContext) -> Decision:
    """Has room once at most 700m are shared by others."""
    return shared(context) if sum(grant.shared_mcpu for grant in context.others) <= 700 else NOWHERE


def system(name: str, mcpu: int, *grants: Grant) -> PlacementContext:
    wanted = request(name, mcpu, BURSTABLE, namespace="kube-system")
    return context_of(TREE, wanted, *grants, reserved="0")


def away(name: str, mcpu: int) -> Grant:
    wanted = request(name, mcpu, BURSTABLE, namespace="kube-system")
    return Grant(wanted, "root", CpuKind.SHARED, shared_mcpu=mcpu, reserved_mcpu=mcpu)


def test_nothing_overflows_that_the_reserved_cpus_hold() -> None:
    assert overflowed(system("a/c", 1000), shared) is None
    assert overflowed(system("a/c", 0), shared) is None


def test_what_overflows_is_booked_there_still() -> None:
    found = overflowed(system("a/c", 1001), shared)
    assert found is not None
    assert (found.grant.shared_mcpu, found.grant.reserved_mcpu) == (1001, 1001)
    assert [reason.code for reason in found.reasons] == ["reserved-full", "pool"]


def test_one_that_fits_nowhere_does_not_overflow() -> None:
    assert overflowed(system("a/c", 1001), nowhere) is None


def test_nothing_goes_back_where_there_is_room() -> None:
    context = context_of(TREE, request("new/c", 1000), away("a/c", 500), reserved="0")
    assert placed(place(context)).moved == ()


def test_as_few_as_suffice_go_back() -> None:
    grants = [away("a/c", 300), away("b/c", 900), away("d/c", 400)]
    context = context_of(TREE, request("new/c", 1000), *grants, reserved="0")
    found = placed(with_reserved_back(context, only_beside_few, NOWHERE))
    assert [(grant.container.pod_uid, grant.kind) for grant in found.moved] == [("b", CpuKind.RESERVED)]
    assert found.reasons[0].code == "reserved-returned"


def test_the_refusal_stands_where_all_of_them_are_too_few() -> None:
    context = context_of(TREE, request("new/c", 1000), away("a/c", 300), reserved="0")
    assert rejected(with_reserved_back(context, nowhere, NOWHERE)) is NOWHERE
    assert rejected(with_reserved_back(replace(context, others=()), nowhere, NOWHERE)) is NOWHERE
