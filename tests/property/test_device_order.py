"""Devices of random stocks are taken in the kubelet's order, whatever a chooser answers."""

from collections.abc import Sequence
from random import Random

import pytest

from policies.choose import Stock, take_devices

CASES = 1000


class Anything:
    """Prefers any devices, also such that are not to be had."""

    def __init__(self, random: Random, names: Sequence[str]) -> None:
        self._random = random
        self._names = names

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        assert set(included) < set(available)
        assert len(included) < size < len(available)
        return tuple(self._random.choices(self._names, k=self._random.randint(0, size + 2)))


@pytest.mark.parametrize("seed", range(3))
def test_reusable_devices_come_first_and_aligned_ones_before_others(seed: int) -> None:
    random = Random(seed)
    for _ in range(CASES):
        names = [f"d{i}" for i in range(random.randint(1, 8))]
        nodes = {name: random.choice((None, 0, 1, 2, 3, 4)) for name in names}
        free = tuple(random.sample(names, random.randint(0, len(names))))
        reusable = tuple(name for name in names if name not in free)[: random.randint(0, 2)]
        affinity = random.choice((None, 1, 2, 3))
        size = random.randint(0, len(free) + len(reusable))
        taken = take_devices(Stock(free, nodes, reusable), size, affinity, Anything(random, names))
        assert len(taken.devices) == len(set(taken.devices)) == size
        assert set(taken.devices) <= {*free, *reusable}
        assert taken.devices[: len(reusable)] == reusable[:size]
        aligned = {name for name in free if affinity and (nodes[name] or 0) & affinity}
        rest = max(size - len(reusable), 0)
        assert len(aligned & set(taken.devices)) == min(rest, len(aligned))
