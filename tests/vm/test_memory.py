"""A node's memory that is promised twice, and what becomes of the pages."""

import pytest

from tests.vm.report import Report, Seen
from tests.vm.stories.memory import HELD_MIB
from tests.vm.stories.pods import MIB

pytestmark = pytest.mark.timeout(1500)


def lesser(report: Report, step: str) -> Seen:
    return report.steps[f"memory: {step}"]["lesser/c0"]


def test_memory_that_is_promised_twice_gives_the_lesser_container_another_node(two_packages: Report) -> None:
    alone, crowded = lesser(two_packages, "alone"), lesser(two_packages, "crowded")
    assert len(alone.mems) == 1
    assert len(crowded.mems) == 2
    assert alone.mems <= crowded.mems


def test_the_nearest_node_is_the_one_that_comes(two_packages: Report) -> None:
    assert len({node // 2 for node in lesser(two_packages, "crowded").mems}) == 1  # of the same package


def test_the_greater_container_stays_with_the_node_of_its_cpus(two_packages: Report) -> None:
    greater = two_packages.steps["memory: crowded"]["greater/c0"]
    assert greater.mems == lesser(two_packages, "alone").mems
    assert {cpu // 4 for cpu in greater.cpus} == set(greater.mems)


def test_memory_comes_home_when_there_is_room_again(two_packages: Report) -> None:
    assert lesser(two_packages, "home again").mems == lesser(two_packages, "alone").mems


def test_neither_restarts_the_container(two_packages: Report) -> None:
    """The process that was looked at is the same, and everybody is looked at by its first process."""
    assert len({lesser(two_packages, step).pid for step in ("alone", "crowded", "home again")}) == 1


def test_its_pages_come_home_too(two_packages: Report) -> None:
    home = str(lesser(two_packages, "alone").mems)
    wide = two_packages.facts["memory: pages while wide"]
    narrow = two_packages.facts["memory: pages at home"]
    assert wide[home] < MIB
    assert sum(wide.values()) >= HELD_MIB * MIB
    assert {node for node, held in narrow.items() if held >= MIB} == {home}
    assert narrow[home] >= HELD_MIB * MIB
