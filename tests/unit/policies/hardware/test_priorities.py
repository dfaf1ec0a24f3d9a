from dataclasses import replace

import pytest

from policies.hardware.priorities import priority_masks_of, speeds_of
from policies.preferences import CpuPriority
from sysfs.assemble import assemble
from sysfs.cpuset import CpuSet
from sysfs.discover import discover_tree
from sysfs.model import Machine
from tests.fakes.machines import facts_of, small_machine
from tests.golden.machines.captures import CPUFREQ, LAPTOP, others

FLAT = {"threads": 1, "cores": 4}


def told(machine: Machine, frequencies_mhz: str = "", preferences: str = "") -> Machine:
    """The machine with these figures for its CPUs in order; blanks between them, fewer leave the rest untold."""
    facts = facts_of(machine)
    mhz = [int(word) for word in frequencies_mhz.split()] + [0] * len(facts.cpus)
    words = preferences.split() + [""] * len(facts.cpus)
    cpus = [
        replace(cpu, base_frequency_khz=1000 * mhz[i], energy_preference=words[i]) for i, cpu in enumerate(facts.cpus)
    ]
    return assemble(replace(facts, cpus=cpus))


def speeds(machine: Machine) -> tuple[str, str, str]:
    found = speeds_of(machine)
    return str(CpuSet(found.high)), str(CpuSet(found.normal)), str(CpuSet(found.low))


def one_package(frequencies_mhz: str = "", preferences: str = "", **keys: object) -> tuple[str, str, str]:
    return speeds(told(small_machine(packages=1, **FLAT | keys), frequencies_mhz, preferences))


def test_where_nothing_tells_them_apart_all_are_normal() -> None:
    assert one_package() == one_package("2100 2100 2100 2100", "power power power power") == ("", "0-3", "")


def test_what_is_not_the_lowest_frequency_of_its_package_is_high() -> None:
    assert one_package("2100 2400 2100 2700") == ("1,3", "", "0,2")


def test_packages_are_not_compared() -> None:
    assert speeds(told(small_machine(**FLAT), "21 21 21 21 24 24 24 24")) == ("", "0-7", "")


def test_what_is_not_told_is_normal() -> None:
    assert one_package("2100 2400") == ("1", "2-3", "0")


@pytest.mark.parametrize(
    ("preferences", "high"),
    [
        ("performance balance_performance", "0"),
        ("balance_performance default", "0"),
        ("normal balance_power", "0"),
        ("balance_power power", "0"),
        ("power performance", "1"),
        ("128 power", "0"),
        ("255 128", "1"),
        ("performance strange", ""),
        ("performance 1000", ""),
        ("performance ²", ""),  # a digit, and no number
    ],
)
def test_what_is_not_the_laziest_of_its_package_is_high(preferences: str, high: str) -> None:
    assert one_package(preferences=preferences)[0] == high


def test_one_sign_of_speed_is_enough() -> None:
    assert one_package("2100 2400 2100 2100", "power power performance power") == ("1-2", "", "0,3")


def of_capacities(*capacities: int, **keys: object) -> tuple[str, str, str]:
    facts = facts_of(small_machine(packages=2, threads=1, **keys))
    cpus = [replace(cpu, capacity=capacity) for cpu, capacity in zip(facts.cpus, capacities, strict=True)]
    return speeds(assemble(replace(facts, cpus=cpus)))


def test_small_cores_are_low_on_the_whole_machine_where_a_cluster_is_a_package() -> None:
    assert of_capacities(530, 530, 1024, 900) == ("2-3", "", "0-1")


def test_capacities_within_5_percent_are_equal_as_to_the_scheduler() -> None:
    assert of_capacities(973, 973, 1024, 1000) == ("", "0-3", "")
    assert of_capacities(960, 960, 1024, 1000) == ("2", "", "0-1,3")


def test_an_efficiency_core_is_compared_with_its_kind_alone() -> None:
    assert of_capacities(530, 530, 1024, 1024, efficiency="0-1") == ("", "2-3", "0-1")


def test_efficiency_cores_are_low_whatever_else_is_told() -> None:
    assert one_package(efficiency="2-3") == ("", "0-1", "2-3")
    assert one_package("2600 2600 1900 2000", efficiency="2-3") == ("", "0-1", "2-3")


def masks(machine: Machine, wish: CpuPriority) -> list[str]:
    return [str(CpuSet(mask)) for mask in priority_masks_of(machine)[wish]]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (CpuPriority.HIGH, ["1", "1-3", "0-3"]),
        (CpuPriority.NORMAL, ["2-3", "0,2-3", "0-3"]),
        (CpuPriority.LOW, ["0", "0,2-3", "0-3"]),
        (CpuPriority.NONE, ["1", "0-3"]),
    ],
)
def test_a_wish_begins_with_its_own_and_goes_to_its_neighbours(wish: CpuPriority, expected: list[str]) -> None:
    assert masks(told(small_machine(packages=1, **FLAT), "2100 2400"), wish) == expected


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (CpuPriority.HIGH, ["0", "0-1", "2-3", "0-3"]),
        (CpuPriority.NORMAL, ["1", "0-1", "2-3", "0-3"]),
        (CpuPriority.LOW, ["2-3", "1-3", "0-1", "0-3"]),
        (CpuPriority.NONE, ["0", "0-1", "2-3", "0-3"]),
    ],
)
def test_kinds_of_core_are_not_mixed_while_one_suffices(wish: CpuPriority, expected: list[str]) -> None:
    assert masks(told(small_machine(packages=1, efficiency="2-3", **FLAT), "2700 2600 1900 1900"), wish) == expected


def test_without_a_wish_efficiency_cores_come_last_though_some_of_them_are_faster() -> None:
    machine = told(small_machine(packages=1, efficiency="2-3", **FLAT), "2600 2600 1900 2000")
    assert masks(machine, CpuPriority.NONE) == ["0-1", "2-3", "0-3"]


@pytest.mark.parametrize("wish", CpuPriority)
def test_where_all_are_equal_there_is_nothing_to_prefer(wish: CpuPriority) -> None:
    assert masks(small_machine(), wish) == ["0-7"]


@pytest.mark.parametrize(
    ("file", "root", "expected"),
    [
        (*LAPTOP, ("", "0-7", "8-15")),
        (*CPUFREQ, ("", "0-15,20-35,40-55,60-75", "16-19,36-39,56-59,76-79")),
    ],
)
def test_captured_machines_are_read_as_they_are(file: str, root: str, expected: tuple[str, str, str]) -> None:
    assert speeds(discover_tree(others(file, root))) == expected


def test_what_saves_most_power_is_low_and_the_others_are_high() -> None:
    assert one_package("", "power performance balance_power power") == ("1-2", "", "0,3")
