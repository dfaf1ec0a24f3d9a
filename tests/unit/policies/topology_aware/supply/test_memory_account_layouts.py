"""Test the layouts of promises that are made from earlier ones."""

import random

from hypothesis import given
from hypothesis import strategies as st

from policies.topology_aware.supply.memory_account import MemoryLayouts
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from policies.topology_aware.supply.memory_packing import in_order
from tests.fakes.machines import small_machine
from tests.unit.policies.memory.build import FEW, can_be_kept, packed

SMALL = memory_nodes_of(small_machine(packages=4, memory=4))  # 4 nodes of 4 bytes: an error of one is seen


@FEW
@given(st.integers(0, 1 << 32))
def test_a_layout_that_follows_from_others_takes_what_a_new_one_takes(seed: int) -> None:
    """Zones come, grow, shrink and go, also beyond what fits: every answer is that of a layout made from nothing."""
    rng, layouts, sums = random.Random(seed), MemoryLayouts(SMALL), dict[int, int]()
    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            zone = rng.randrange(1, SMALL.every + 1) & SMALL.every or SMALL.every
            sums[zone] = max(0, sums.get(zone, 0) + rng.randrange(-6, 6))
        promises = in_order((zone, amount) for zone, amount in sums.items() if amount)
        found, fresh = layouts.of("zones", promises), packed(SMALL, promises)
        assert (found is None) == (fresh is None) == (not can_be_kept(dict(SMALL.capacity_bytes), promises))
        if found is None:
            continue
        for zone in range(1, SMALL.every + 1):
            wanted = rng.randrange(1, 8)
            kept = can_be_kept(dict(SMALL.capacity_bytes), [*promises, (zone & SMALL.every, wanted)])
            assert found.takes(zone & SMALL.every, wanted) == kept
        assert not promises or layouts.of("zones", promises) is found


def test_a_layout_that_was_handed_out_does_not_change() -> None:
    layouts = MemoryLayouts(SMALL)
    first = layouts.of("zones", ((1, 2),))
    assert first is not None
    before = [first.takes(1, amount) for amount in range(1, 12)]
    layouts.of("zones", ((1, 1), (3, 9)))
    assert [first.takes(1, amount) for amount in range(1, 12)] == before
