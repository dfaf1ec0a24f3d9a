import pytest

from policies.errors import PolicyOptionsError
from policies.hardware.reserve import choose_reserved, split_cores_note
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


def note(reserved: str, **keys: object) -> str:
    machine = small_machine(numbering="split", cores=4, **keys)
    return split_cores_note(machine, machine.online, CpuSet.parse(reserved))


@pytest.mark.parametrize(
    ("reserved", "split", "better"),
    [
        ("0-1", "2 cores", "0,8 would split none"),
        ("0-2", "3 cores", "0-1,8 would split 1"),
        ("0-1,4-5", "4 cores", "0,4,8,12 would split none"),  # as many in each NUMA node
    ],
)
def test_reserved_threads_whose_siblings_are_left_are_remarked_on(reserved: str, split: str, better: str) -> None:
    expected = f"reserved CPUs {reserved} split {split}, and no container that asks for whole cores gets the rest"
    assert note(reserved) == f"{expected} of them; {better}"


@pytest.mark.parametrize("reserved", ["", "0", "0,8", "0-1,8", "0,4"])
def test_reserved_cpus_that_split_no_more_cores_than_they_must_are_not(reserved: str) -> None:
    assert note(reserved) == ""


def test_a_sibling_that_is_isolated_or_not_available_is_no_loss() -> None:
    machine = small_machine(numbering="split", cores=4, isolated="8-9")
    assert split_cores_note(machine, machine.online, CpuSet.parse("0-1")) == ""
    assert split_cores_note(machine, CpuSet.parse("0-7"), CpuSet.parse("0-1")) == ""


def test_a_machine_without_hyperthreads_has_nothing_to_split() -> None:
    assert note("0-1", threads=1) == ""
