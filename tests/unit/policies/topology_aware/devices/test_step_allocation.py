"""Devices of the inventory for a container on four nodes of four CPUs, with a GPU on each."""

from dataclasses import replace

from policies.alignment import Alignment
from policies.base import Previous, Rejected
from policies.device_grants import DeviceGrant
from policies.devices import EMPTY_INVENTORY
from policies.topology_aware.devices.reasons import ChosenDevices
from policies.topology_aware.devices.step import DeviceStep, near_given
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.allocations import PCIE, ask, asking, choosing, gpus_on, holding, names, whole
from tests.unit.policies.build import four_nodes, request

MACHINE = four_nodes()
GPUS = gpus_on(0, 1, 2, 3)
BY_OTHERS = replace(whole(1), is_given=True)


def context(count: int, *held: object, **keys: object) -> PlacementContext:
    wanted = asking("new/c", ask(gpu=count), **keys)  # type: ignore[arg-type]  # by name
    return choosing(MACHINE, GPUS, wanted, *held)  # type: ignore[arg-type]  # grants


def within(of: PlacementContext, *nodes: int, strict: bool) -> PlacementContext:
    alignment = Alignment(NodeSet.of(nodes), NodeSet.of(nodes), is_strict=strict)
    return replace(of, request=replace(of.request, alignment=alignment))


def found(of: PlacementContext) -> ChosenDevices:
    answer = DeviceStep(of).chosen(of)
    assert isinstance(answer, ChosenDevices), answer
    return answer


def refused(of: PlacementContext) -> str:
    answer = DeviceStep(of).chosen(of)
    assert isinstance(answer, Rejected), answer
    return f"{answer.reason.code}: {answer.reason.text}"


def codes(of: ChosenDevices) -> list[str]:
    return [reason.code for reason in of.reasons]


def had(*devices: DeviceGrant) -> Previous:
    return Previous("", CpuSet(), devices=devices)


def test_devices_come_with_their_numa_node() -> None:
    answer = found(context(1))
    assert names(answer.devices) == "gpu 0"
    assert [(place.source, place.cpus, place.nodes) for place in answer.near] == [
        ("gpu/0", CpuSet.parse("0-3"), NodeSet.of([0]))
    ]


def test_strict_nodes_bound_the_choice() -> None:
    assert names(found(within(context(1), 2, strict=True)).devices) == "gpu 2"
    assert refused(within(context(2), 2, strict=True)) == (
        "strict-topology: gpu: 2 asked for, 1 can be given (gpu 0-1,3: on another NUMA node);"
        " its topology policy keeps it on NUMA node 2"
    )


def test_other_nodes_are_preferred_and_said_to_be_missed() -> None:
    assert names(found(within(context(1), 2, strict=False)).devices) == "gpu 2"
    beyond = found(within(context(2), 2, strict=False))
    assert len(beyond.devices) == 2
    assert codes(beyond) == ["allocated", "devices-beyond"]


def test_too_many_are_refused_with_the_sentence_of_the_search_and_who_holds_them() -> None:
    text = "allocation-refused: gpu: 4 asked for, 3 can be given (gpu 1: in use); held: gpu 1 by default/a/c"
    assert refused(context(4, holding("a/c", whole(1)))) == text
    assert DeviceStep(context(4)).lacking is None
    assert DeviceStep(context(4, holding("a/c", whole(1)))).lacking is not None


def test_where_the_node_has_no_inventory_the_options_that_give_one_are_named() -> None:
    text = refused(choosing(MACHINE, EMPTY_INVENTORY, asking("new/c", ask(gpu=1))))
    assert "the inventory has none; name an inventory in devices.inventory, or set devices.scan; where one is" in text


def test_what_cannot_be_read_is_a_refusal() -> None:
    wrong = choosing(MACHINE, GPUS, asking("new/c", ask(core=150)))
    assert refused(wrong).startswith("allocation-refused: koordinator.sh/gpu: 150 is neither")
    assert DeviceStep(wrong).lacking is not None


def test_what_is_read_otherwise_than_written_is_said() -> None:
    joint = choosing(MACHINE, GPUS, asking("new/c", ask(("gpu",), scope="PCIe", gpu=1)))
    assert codes(found(joint)) == ["allocated", "allocation-read"]


def test_an_earlier_attempt_has_its_devices_again_where_they_serve() -> None:
    again = found(context(1, previous=had(whole(3))))
    assert (names(again.devices), codes(again)) == ("gpu 3", ["devices-kept"])
    assert again.reasons[0].text == "its earlier gpu 3 is free and kept"
    taken = found(context(1, holding("a/c", whole(3)), previous=had(whole(3))))
    assert (names(taken.devices), codes(taken)) == ("gpu 0", ["devices-lost", "allocated"])


def test_another_request_is_a_new_choice() -> None:
    assert names(found(context(2, previous=had(whole(3)))).devices) == "gpu 0, gpu 1"
    share = DeviceGrant("gpu", 3, 50, resources=(("koordinator.sh/gpu", 50),))
    assert names(found(context(1, previous=had(share))).devices) == "gpu 0"


def test_what_runs_keeps_what_it_has_and_what_it_was_given() -> None:
    runs = replace(context(1, given=(BY_OTHERS,)), devices=(whole(3),))
    answer = found(runs)
    assert answer.devices == (whole(3), BY_OTHERS)
    assert [place.source for place in answer.near] == ["gpu/3", "gpu/1"]


def test_devices_that_others_chose_are_granted_whoever_holds_them() -> None:
    others = holding("a/c", replace(whole(1), exclusive=PCIE))
    answer = found(choosing(MACHINE, GPUS, request("new/c", 1000, given=(BY_OTHERS,)), others))
    assert answer.devices == (BY_OTHERS,)
    assert codes(answer) == ["allocated", "devices-overlap"]


def test_of_devices_that_others_chose_only_those_are_told_that_somebody_has() -> None:
    given = (BY_OTHERS, replace(whole(2), is_given=True))
    alone, beside = context(0, given=given), context(0, holding("a/c", whole(2)), given=given)
    assert codes(found(alone)) == ["allocated"]
    assert [text for text in (reason.text for reason in found(beside).reasons) if "should not" in text] == [
        "others chose gpu 2 for it, which it should not have beside gpu 2 by default/a/c"
    ]


def test_a_device_that_it_was_given_is_not_chosen_for_it_again() -> None:
    answer = found(context(1, given=(replace(whole(0), is_given=True),)))
    assert names(answer.devices) == "gpu 1, gpu 0"


def test_the_place_of_given_devices_counts_as_a_hint() -> None:
    (hint,) = near_given(context(1, given=(BY_OTHERS,))).request.localities
    assert (hint.source, hint.nodes) == ("gpu/1", NodeSet.of([1]))


def test_without_an_inventory_nothing_is_chosen() -> None:
    assert found(replace(context(1), machine_devices=None)) == ChosenDevices()
