"""Taking devices: the four cases of merged hints and preferred allocations, and the kubelet's order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from policies.choose import Stock, TakenDevices, take_devices

# NVLinks of a DGX-1 (V100) by pairs of GPUs: GPU 0 has two to 3 and 4, one to 1 and 2, none to the others.
TWO_LINKS = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
ONE_LINK = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
LINKS = dict.fromkeys(TWO_LINKS, 2) | dict.fromkeys(ONE_LINK, 1)
DGX1 = {f"gpu{gpu}": 1 << gpu // 4 for gpu in range(8)}
FIRST_SOCKET, SECOND_SOCKET, BOTH = 0b01, 0b10, 0b11


def links(devices: Collection[str]) -> int:
    numbers = sorted(int(device.removeprefix("gpu")) for device in devices)
    return sum(LINKS.get(pair, 0) for pair in combinations(numbers, 2))


@dataclass
class MostLinks:
    """Prefers the set with the most links, and counts how often it is asked."""

    calls: list[tuple[Sequence[str], Sequence[str], int]] = field(default_factory=list)

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        self.calls.append((available, included, size))
        sets = (each for each in combinations(available, size) if set(included) <= set(each))
        return max(sets, key=links, default=())


@dataclass
class Always:
    """Answers the same whatever it is asked."""

    answer: tuple[str, ...]

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        return self.answer


def gpus(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu{number}" for number in numbers)


def test_each_gpu_of_the_dgx1_has_six_links() -> None:
    """Two more pairs of two links, (2, 6) and (3, 7) as the list of 2019 has them, would give GPUs 2, 3, 6, 7 seven."""
    assert [sum(count for pair, count in LINKS.items() if gpu in pair) for gpu in range(8)] == [6] * 8
    with_ten = LINKS | {(2, 6): 2, (3, 7): 2}
    assert [sum(count for pair, count in with_ten.items() if gpu in pair) for gpu in (2, 3, 6, 7)] == [7] * 4


def test_without_affinity_and_chooser_devices_come_from_the_front() -> None:
    assert take_devices(Stock(gpus(1, 0, 4), DGX1), 2) == TakenDevices(gpus(1, 0))


def test_with_an_affinity_devices_are_on_its_nodes() -> None:
    assert take_devices(Stock(gpus(*range(8)), DGX1), 2, SECOND_SOCKET) == TakenDevices(gpus(4, 5))


def test_without_affinity_the_preferred_set_is_taken() -> None:
    stock = Stock(gpus(0, 1, 3, 5), DGX1)
    assert take_devices(stock, 2, None, MostLinks()) == TakenDevices(gpus(0, 3))


def test_without_affinity_and_without_a_preferred_set_devices_come_from_the_front() -> None:
    assert take_devices(Stock(gpus(0, 1, 3), DGX1), 2, None, Always(())) == TakenDevices(gpus(0, 1))


def test_with_an_affinity_the_preferred_set_is_one_of_its_nodes() -> None:
    """GPUs 0 and 4 have two links and lie apart; 0 and 1 have one."""
    stock = Stock(gpus(4, 0, 1), DGX1)
    assert take_devices(stock, 2, BOTH, MostLinks()).devices == gpus(4, 0)
    assert take_devices(stock, 2, FIRST_SOCKET, MostLinks()).devices == gpus(0, 1)


def test_with_an_affinity_and_no_preferred_set_in_it_any_devices_of_its_nodes_are_taken() -> None:
    stock = Stock(gpus(*range(8)), DGX1)
    assert take_devices(stock, 2, SECOND_SOCKET, Always(gpus(0, 3))) == TakenDevices(gpus(4, 5))


def test_a_preferred_set_that_is_partly_allowed_is_filled_up() -> None:
    stock = Stock(gpus(*range(8)), DGX1)
    assert take_devices(stock, 2, SECOND_SOCKET, Always(gpus(0, 7, 7))) == TakenDevices(gpus(7, 4))


def test_reusable_devices_are_taken_first_and_must_be_included() -> None:
    chooser = MostLinks()
    stock = Stock(gpus(1, 2, 3, 4), DGX1, reusable=gpus(0))
    assert take_devices(stock, 2, FIRST_SOCKET, chooser) == TakenDevices(gpus(0, 3))
    assert chooser.calls == [(gpus(0, 1, 2, 3), gpus(0), 2)]


def test_with_too_few_aligned_devices_all_of_them_are_taken_and_the_chooser_adds_others() -> None:
    stock = Stock(gpus(0, 4, 5, 7), DGX1)
    assert take_devices(stock, 2, FIRST_SOCKET, MostLinks()) == TakenDevices(gpus(0, 4), unaligned=gpus(4))


def test_devices_without_a_node_are_taken_last() -> None:
    stock = Stock(("none", "far", "near"), {"none": None, "far": SECOND_SOCKET, "near": FIRST_SOCKET})
    assert take_devices(stock, 3, FIRST_SOCKET) == TakenDevices(("near", "far", "none"), unaligned=("far",))


def test_the_chooser_is_not_asked_where_it_has_no_choice() -> None:
    chooser = MostLinks()
    take_devices(Stock(gpus(0, 1), DGX1), 2, None, chooser)  # all there are
    take_devices(Stock(gpus(0, 1, 4), DGX1), 2, FIRST_SOCKET, chooser)  # all that are aligned
    take_devices(Stock(gpus(0, 4, 5), DGX1), 3, FIRST_SOCKET, chooser)  # all aligned, then all others
    take_devices(Stock(gpus(0, 1), DGX1, reusable=gpus(2)), 1, None, chooser)  # what is reusable is enough
    assert chooser.calls == []


def test_too_few_devices_give_none_and_how_many_are_missing() -> None:
    assert take_devices(Stock(gpus(0), DGX1, reusable=gpus(1)), 4) == TakenDevices()
