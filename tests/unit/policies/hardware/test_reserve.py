import pytest

from policies.errors import PolicyOptionsError
from policies.hardware.reserve import choose_reserved
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine


@pytest.mark.parametrize(
    ("mcpu", "expected"), [(0, ""), (1, "0"), (750, "0"), (1000, "0"), (1001, "0,4"), (3000, "0-1,4"), (8000, "0-7")]
)
def test_a_quantity_is_rounded_up_and_taken_core_by_core(mcpu: int, expected: str) -> None:
    machine = small_machine(numbering="split")
    assert str(choose_reserved(machine, machine.online, mcpu)) == expected


def test_a_core_that_is_whole_goes_before_one_with_a_part_missing() -> None:
    found = [str(choose_reserved(small_machine(packages=1), CpuSet.parse("1-3"), mcpu)) for mcpu in (2000, 3000)]
    assert found == ["2-3", "1-3"]


def test_isolated_cpus_are_reserved_last() -> None:
    machine = small_machine(packages=1, isolated="0-1")
    assert str(choose_reserved(machine, machine.online, 1000)) == "2"
    assert str(choose_reserved(machine, machine.online, 3000)) == "0,2-3"


def test_more_than_there_is_cannot_be_reserved() -> None:
    machine = small_machine(packages=1)
    with pytest.raises(PolicyOptionsError, match=r"reservedResources.cpu: cannot use '5000m': only 4 CPUs"):
        choose_reserved(machine, machine.online | CpuSet.parse("900-999"), 5000)
