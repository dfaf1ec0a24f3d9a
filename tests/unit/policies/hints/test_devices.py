"""Hints of devices: only nodes that have one, and capacity by all devices."""

from collections.abc import Mapping
from dataclasses import replace

from policies.hints import DeviceProvider, DeviceRequest, Hints
from tests.unit.policies.hints.build import shown

FOUR_NODES = 0b1111
ONE_EACH: Mapping[str, int | None] = {"a": 0b001, "b": 0b010}


def hints(request: DeviceRequest, machine: int = FOUR_NODES) -> Hints:
    return DeviceProvider(machine, {"example.com/gpu": request}).offers()["example.com/gpu"]


def request(
    count: int, nodes: Mapping[str, int | None], available: str, *, reusable: str = "", allocated: str = ""
) -> DeviceRequest:
    return DeviceRequest(count, nodes, frozenset(available), frozenset(reusable), frozenset(allocated))


def test_only_nodes_with_a_device_of_the_resource_are_in_a_hint() -> None:
    assert shown(hints(request(1, ONE_EACH, "ab"))) == ["0!", "1!", "0-1"]


def test_preferred_is_what_all_devices_would_do_healthy_or_not() -> None:
    """Two of node 0 would do; one of them is not available."""
    assert shown(hints(request(2, {"a": 1, "b": 1, "c": 2}, "ac"))) == ["0-1"]


def test_too_few_devices_cannot_satisfy_the_request() -> None:
    assert hints(request(2, ONE_EACH, "a")) == ()
    assert hints(request(3, ONE_EACH, "ab")) == ()


def test_a_resource_without_numa_nodes_has_no_preference() -> None:
    assert hints(request(1, {"a": None, "b": None}, "ab")) is None
    assert hints(request(9, {"a": None}, "a")) is None


def test_a_device_without_a_node_counts_in_no_set() -> None:
    assert hints(request(2, {"a": 0b001, "b": None}, "ab")) == ()
    assert shown(hints(request(1, {"a": 0b001, "b": None}, "ab"))) == ["0!"]


def test_a_device_on_several_nodes_counts_on_each() -> None:
    assert shown(hints(request(2, {"a": 0b011, "b": 0b010}, "ab"))) == ["1!", "0-1"]


def test_nodes_that_the_machine_does_not_have_are_dropped() -> None:
    assert shown(hints(request(1, {"a": 1 << 7 | 0b001}, "a"))) == ["0!"]
    assert hints(request(1, {"a": 1 << 7}, "a")) == ()


def test_where_no_device_is_on_a_node_of_the_machine_all_of_its_nodes_are_tried() -> None:
    assert shown(hints(request(0, {"a": 1 << 7}, "a"), 0b11)) == ["0!", "1!", "0-1"]


def test_a_set_without_a_reusable_device_is_not_offered() -> None:
    assert shown(hints(request(1, ONE_EACH, "b", reusable="a"))) == ["0!", "0-1"]
    assert shown(hints(request(2, ONE_EACH, "b", reusable="a"))) == ["0-1!"]


def test_a_device_that_is_reusable_and_available_counts_once() -> None:
    assert shown(hints(request(2, ONE_EACH, "ab", reusable="a"))) == ["0-1!"]


def test_devices_that_are_held_give_their_own_hints() -> None:
    assert shown(hints(request(1, ONE_EACH, "a", allocated="b"))) == ["1!", "0-1"]


def test_a_changed_request_cannot_be_satisfied() -> None:
    assert hints(request(2, ONE_EACH, "a", allocated="b")) == ()


def test_each_resource_has_its_own_hints() -> None:
    offers = DeviceProvider(
        FOUR_NODES, {"example.com/gpu": request(1, ONE_EACH, "a"), "example.com/nic": request(1, ONE_EACH, "b")}
    ).offers()
    assert {name: shown(found) for name, found in offers.items()} == {
        "example.com/gpu": ["0!", "0-1"],
        "example.com/nic": ["1!", "0-1"],
    }


def test_nodes_that_do_not_count_are_in_no_hint() -> None:
    nodes: Mapping[str, int | None] = {"a": 0b1110, "b": 0b1000, "c": None}
    provider = DeviceProvider(FOUR_NODES, {"nic": request(1, nodes, "abc")}).within(0b0011)
    assert shown(provider.offers()["nic"]) == ["1!"]
    assert provider.requests["nic"].nodes == {"a": 0b0010, "b": None, "c": None}


# The pairs of a DGX-1's GPUs with two NVLinks; GPUs 0 to 3 are on node 0, 4 to 7 on node 1.
TWO_LINKS = ("03", "04", "12", "15", "23", "47", "56", "67")
GPUS: Mapping[str, int | None] = {str(gpu): 1 << gpu // 4 for gpu in range(8)}


def pair(available: str) -> DeviceRequest:
    return DeviceRequest(2, GPUS, frozenset(available), preferred_sets=tuple(map(frozenset, TWO_LINKS)))


def without_preference(asked: DeviceRequest) -> tuple[str, ...]:
    provider = DeviceProvider(FOUR_NODES, {"example.com/gpu": asked})
    return provider.without_preference(provider.offers())


def test_preferred_sets_decide_which_hints_are_preferred() -> None:
    """On an idle DGX-1 pairs of one node and pairs of two have two links; the number of nodes counts no longer."""
    assert shown(hints(pair("01234567"))) == ["0!", "1!", "0-1!"]
    assert shown(hints(pair("0145"))) == ["0", "1", "0-1!"]
    assert shown(hints(replace(pair("0145"), preferred_sets=None))) == ["0!", "1!", "0-1"]


def test_preferred_sets_that_cannot_be_had_leave_no_preferred_hint() -> None:
    assert without_preference(pair("0167")) == ()
    assert shown(hints(pair("0257"))) == ["0", "1", "0-1"]
    assert without_preference(pair("0257")) == ("example.com/gpu",)


def test_a_preferred_set_of_another_size_does_not_count() -> None:
    sets = (frozenset("0"), frozenset("012"))
    assert shown(hints(replace(pair("0123"), preferred_sets=sets))) == ["0", "0-1"]


def test_preferred_sets_of_devices_that_are_held_count() -> None:
    held = replace(pair("23"), allocated=frozenset("04"))
    assert shown(hints(held)) == ["0-1!"]


def test_where_nothing_is_offered_or_wished_no_preference_is_missing() -> None:
    without_nodes = DeviceRequest(1, {"a": None}, frozenset("a"), preferred_sets=())
    assert without_preference(without_nodes) == without_preference(pair("0")) == ()
    assert without_preference(request(2, {"a": 1, "b": 1, "c": 2}, "ac")) == ()


def test_a_preferred_set_may_have_devices_that_init_containers_of_the_pod_leave() -> None:
    left = replace(pair("0"), reusable=frozenset("4"))
    assert shown(hints(left)) == ["0-1!"]
