import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.hardware.siblings import one_thread_per_core, sibling_shifts, siblings_of
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import machines, small_machine


def shifts_of(machine: Machine) -> tuple[tuple[int, int], ...]:
    return sibling_shifts(core.cpus.mask for core in machine.cores)


@pytest.mark.parametrize(("numbering", "expected"), [("linear", "0,2,4,6"), ("split", "0-3")])
def test_the_lowest_thread_of_each_core_stays(numbering: str, expected: str) -> None:
    machine = small_machine(numbering=numbering)
    assert str(CpuSet(one_thread_per_core(shifts_of(machine), machine.online.mask))) == expected


def test_where_the_lowest_thread_is_missing_the_next_one_stays() -> None:
    machine = small_machine(threads=4, cores=1)
    assert str(CpuSet(one_thread_per_core(shifts_of(machine), CpuSet.parse("1-3,6").mask))) == "1,6"


def test_siblings_are_all_the_others_of_the_core() -> None:
    machine = small_machine(threads=4, cores=1)
    assert str(CpuSet(siblings_of(shifts_of(machine), CpuSet.parse("1,4").mask))) == "0,2-3,5-7"


def test_regular_numbers_need_few_entries() -> None:
    assert [n for n, _ in shifts_of(small_machine(cores=8, numbering="split"))] == [16]


@settings(max_examples=settings().max_examples // 3)
@given(machines(max_packages=2, max_cpus=32), st.integers(0, 1 << 64))
def test_every_core_of_a_set_keeps_exactly_one_thread(machine: Machine, some: int) -> None:
    cpus = machine.online.mask & some
    shifts = shifts_of(machine)
    chosen = one_thread_per_core(shifts, cpus)
    for core in machine.cores:
        assert (core.cpus.mask & chosen).bit_count() == min(1, (core.cpus.mask & cpus).bit_count())
    assert not chosen & siblings_of(shifts, chosen)
