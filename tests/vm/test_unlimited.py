"""Who has no memory limit and needs more than its node has."""

import pytest

from tests.vm.report import Report, Seen
from tests.vm.stories.pods import MIB
from tests.vm.stories.unlimited import NEEDED_MIB

pytestmark = pytest.mark.timeout(1500)


def hungry(report: Report, rule: str) -> Seen:
    return report.steps[f"unlimited: {rule}"][f"{rule}/c0"]


def test_with_spill_it_may_use_every_node_and_lives(two_packages: Report) -> None:
    assert len(hungry(two_packages, "spill").mems) == 4
    assert two_packages.facts["unlimited: killed with spill"] == 0
    assert sum(two_packages.facts["unlimited: pages with spill"].values()) >= NEEDED_MIB * MIB


def test_the_kernel_takes_the_node_of_its_cpus_and_then_the_nearest(two_packages: Report) -> None:
    pages, cpus = two_packages.facts["unlimited: pages with spill"], hungry(two_packages, "spill").cpus
    (home,) = {cpu // 4 for cpu in cpus}
    near = [held for node, held in pages.items() if int(node) // 2 == home // 2]
    assert pages[str(home)] >= MIB  # what else lies there is the machine's own
    assert sum(near) > sum(pages.values()) / 2


def test_with_strict_it_stays_in_its_node_and_is_killed(two_packages: Report) -> None:
    seen = hungry(two_packages, "strict")
    assert len(seen.mems) == 1
    assert two_packages.facts["unlimited: killed with strict"] > 0
