"""Hints of devices: only nodes that have one, and capacity by all devices."""

from collections.abc import Mapping

from policies.hints.devices import DeviceProvider, DeviceRequest
from policies.hints.model import Amount, Hints, Unlisted
from tests.unit.policies.hints.build import shown

FOUR_NODES = 0b1111
ONE_EACH: Mapping[str, int | None] = {"a": 0b001, "b": 0b010}


def hints(request: DeviceRequest, machine: int = FOUR_NODES) -> Hints:
    offers = DeviceProvider(machine, {"example.com/gpu": request}).offers()
    assert offers is not None
    return offers["example.com/gpu"]


def request(count: int, nodes: Mapping[str, int | None], available: str, **held: str) -> DeviceRequest:
    return DeviceRequest(count, nodes, frozenset(available), **{key: frozenset(ids) for key, ids in held.items()})


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


def test_a_set_without_a_reusable_device_is_not_offered() -> None:
    assert shown(hints(request(1, ONE_EACH, "b", reusable="a"))) == ["0!", "0-1"]
    assert shown(hints(request(2, ONE_EACH, "b", reusable="a"))) == ["0-1!"]


def test_devices_that_are_held_give_their_own_hints() -> None:
    assert shown(hints(request(1, ONE_EACH, "a", allocated="b"))) == ["1!", "0-1"]


def test_a_changed_request_cannot_be_satisfied() -> None:
    assert hints(request(2, ONE_EACH, "a", allocated="b")) == ()


def test_each_resource_has_its_own_hints() -> None:
    offers = DeviceProvider(
        FOUR_NODES, {"example.com/gpu": request(1, ONE_EACH, "a"), "example.com/nic": request(1, ONE_EACH, "b")}
    ).offers()
    assert offers is not None
    assert {name: shown(found) for name, found in offers.items()} == {
        "example.com/gpu": ["0!", "0-1"],
        "example.com/nic": ["1!", "0-1"],
    }


def test_devices_on_many_nodes_are_not_listed() -> None:
    """A device on several nodes counts on its lowest one then: counts per node do not say which devices they share."""
    nodes: Mapping[str, int | None] = {f"d{node}": 1 << node for node in range(17)} | {"wide": 0b110}
    found = hints(DeviceRequest(2, nodes, frozenset(nodes) - {"d0"}, reusable=frozenset({"d3"})), (1 << 17) - 1)
    free = (0, 2, *(1 for _ in range(15)))
    assert found == Unlisted((Amount(free, 2),), preferred_size=1, within=(1 << 17) - 1, required=0b1000)
    nowhere = {**nodes, "lost": 1 << 20}
    assert hints(DeviceRequest(1, nowhere, frozenset(nodes), reusable=frozenset({"lost"})), (1 << 17) - 1) == ()
