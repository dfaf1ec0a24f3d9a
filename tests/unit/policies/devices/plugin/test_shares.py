"""Which shares of GPUs a plugin prefers: those that a container asking by annotation would get."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from policies.devices import DeviceInventory, KnownCloseness, chooser_of, offer_of, offered_devices
from tests.unit.policies.devices.build import gpu, inventory

FOUR = inventory(*(gpu(minor, minor // 2, f"s{minor // 2}") for minor in range(4)))
EIGHT = inventory(*(gpu(minor, minor // 4, f"s{minor // 2}") for minor in range(8)))


class Shares:
    """Quarters of GPUs, of which containers take some."""

    def __init__(self, devices: DeviceInventory, form: str = "shares:4") -> None:
        offered = offered_devices(devices, "gpu", offer_of("gpu", form))
        self.chooser = chooser_of(offered, "cri-proxy.io/gpu", KnownCloseness())
        self.free = list(offered.devices)

    def take(self, size: int, must: Sequence[str] = ()) -> Mapping[int, int]:
        """How many shares of which GPUs are preferred; they are taken."""
        chosen = self.chooser.choose(self.free, must, size)
        assert len(set(chosen)) == len(chosen) == (size if chosen else 0)
        assert {*must} <= {*chosen} <= {*self.free} or not chosen
        self.free = [name for name in self.free if name not in chosen]
        found = [int(name.split("-")[1]) for name in chosen]
        return {minor: found.count(minor) for minor in sorted(set(found))}


def test_a_gpu_is_filled_before_the_next_and_the_fullest_that_has_room_first() -> None:
    shares = Shares(FOUR)
    assert [shares.take(size) for size in (2, 3, 1, 2, 1)] == [{0: 2}, {1: 3}, {1: 1}, {0: 2}, {2: 1}]


def test_shares_spread_over_idle_gpus_of_the_idlest_node_where_the_operator_says_so() -> None:
    shares = Shares(EIGHT, "shares:4:spread")
    assert [next(iter(shares.take(1))) for _ in range(9)] == [0, 4, 2, 6, 1, 5, 3, 7, 0]


def test_a_container_gets_shares_of_one_gpu_while_any_has_room_for_all() -> None:
    shares = Shares(inventory(gpu(0), gpu(1)))
    assert [shares.take(size) for size in (3, 2, 2)] == [{0: 3}, {1: 2}, {1: 2}]


def test_shares_of_several_gpus_are_all_of_these() -> None:
    shares = Shares(FOUR)
    assert shares.take(1) == {0: 1}
    assert shares.take(8) == {2: 4, 3: 4}


@pytest.mark.parametrize(("size", "found"), [(2, {0: 1, 1: 1}), (5, {})])
def test_where_no_gpu_has_room_they_are_as_near_as_they_can_be(size: int, found: Mapping[int, int]) -> None:
    shares = Shares(inventory(gpu(0), gpu(1)))
    assert (shares.take(3), shares.take(3)) == ({0: 3}, {1: 3})
    assert shares.take(size) == found


def test_a_number_that_is_none_of_whole_gpus_is_as_near_as_it_can_be() -> None:
    assert Shares(FOUR).take(6) in ({0: 4, 1: 2}, {0: 2, 1: 4})


def test_those_that_an_init_container_had_are_among_them() -> None:
    shares = Shares(FOUR)
    assert shares.take(2) == {0: 2}
    assert shares.take(3, ["gpu-3-share-2"]) == {3: 3}
    assert shares.take(2, ["gpu-1-share-0", "gpu-2-share-0"]) == {1: 1, 2: 1}
    assert shares.take(8, ["gpu-2-share-1"]) == {0: 2, 1: 3, 2: 3}


def test_a_sick_gpu_is_none_to_fill() -> None:
    shares = Shares(inventory(replace(gpu(0), is_healthy=False), gpu(1)))
    shares.free = [name for name in shares.free if name.startswith("gpu-1")]
    assert shares.take(1) == {1: 1}


def test_percentages_are_shares_of_one_unit() -> None:
    """As Koordinator's gpu-core: 30 and 60 fill a GPU, 20 does not fit beside them."""
    shares = Shares(FOUR, "shares:100")
    assert [shares.take(size) for size in (30, 60, 20, 10)] == [{0: 30}, {0: 60}, {1: 20}, {0: 10}]
