"""The account of huge pages: by size, exact where zones cross, and more promised than there is elsewhere."""

import pytest

from policies.base import HugePageLimit
from policies.topology_aware.supply.hugepages import HugePageAccount, huge_page_account
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from tests.fakes.machines import small_machine
from tests.unit.policies.memory.build import mask

MI = 1 << 20
SMALL, LARGE = 2 * MI, 1024 * MI
MACHINE = small_machine(
    packages=3, memory="8Gi", hugepages={"2Mi": [512, 512, 0], "1Gi": [0, 2, 4]}
)  # 1 GiB of small ones
NONE_PROMISED = huge_page_account(MACHINE, memory_nodes_of(MACHINE))


def limit(page_bytes: int, mebibytes: int) -> HugePageLimit:
    return HugePageLimit(page_bytes, mebibytes * MI)


def promised(*zones: tuple[str, HugePageLimit]) -> HugePageAccount:
    return NONE_PROMISED.changed([(mask(zone), pages) for zone, pages in zones], 1)


def test_each_size_has_its_own_nodes() -> None:
    assert [NONE_PROMISED.nodes_with(size) for size in (SMALL, LARGE, 64 << 10)] == [mask("0-1"), mask("1-2"), 0]


@pytest.mark.parametrize(
    ("zone", "wanted", "lacking"),
    [
        ("0", (limit(SMALL, 1024),), ()),
        ("0", (limit(SMALL, 1026),), (limit(SMALL, 1026),)),
        ("0-1", (limit(SMALL, 2048), limit(LARGE, 2048)), ()),
        ("0", (limit(SMALL, 2), limit(LARGE, 1024)), (limit(LARGE, 1024),)),
        ("0-2", (limit(64 << 10, 1),), (limit(64 << 10, 1),)),
    ],
)
def test_what_a_zone_lacks_is_told_by_size(
    zone: str, wanted: tuple[HugePageLimit, ...], lacking: tuple[HugePageLimit, ...]
) -> None:
    assert NONE_PROMISED.lacking(wanted, mask(zone)) == lacking


def test_promises_of_wider_zones_move_out_of_the_way() -> None:
    account = promised(("0-1", limit(SMALL, 1024)))
    assert account.lacking((limit(SMALL, 1024),), mask("0")) == ()
    assert account.lacking((limit(SMALL, 1026),), mask("0-1")) != ()


def test_released_promises_leave_no_trace() -> None:
    pages = [(mask("0"), limit(SMALL, 4)), (mask("1"), limit(LARGE, 1024))]
    assert NONE_PROMISED.changed(pages, 1).changed(pages, -1).lacking((limit(SMALL, 1024),), mask("0")) == ()
    assert NONE_PROMISED.changed(pages, 1).lacking((limit(SMALL, 1024),), mask("0")) != ()


def test_more_promised_on_one_node_than_it_has_takes_nothing_from_another() -> None:
    account = promised(("0", limit(SMALL, 4096)))
    assert account.lacking((limit(SMALL, 1024),), mask("1")) == ()


def test_of_a_size_that_is_gone_there_is_none() -> None:
    gone = limit(64 << 10, 1)
    assert promised(("0", gone)).lacking((gone,), mask("0-2")) == (gone,)
