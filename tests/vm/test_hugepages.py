"""Huge pages that two of four nodes have, and from where the kernel takes them."""

import pytest

from sysfs.cpuset import NodeSet
from tests.vm.report import Report
from tests.vm.stories.pods import MIB

pytestmark = pytest.mark.timeout(1500)


@pytest.mark.parametrize(("pod", "node"), [("large", 2), ("small", 1)])
def test_a_container_is_at_the_node_that_has_its_huge_pages_left(two_packages: Report, pod: str, node: int) -> None:
    seen = two_packages.steps["hugepages: placed"][f"{pod}/c0"]
    assert seen.mems == NodeSet.of([node])
    assert {cpu // 4 for cpu in seen.cpus} == {node}


@pytest.mark.parametrize(("pod", "pages"), [("large", {"2": 32 * MIB}), ("small", {"1": 16 * MIB})])
def test_the_kernel_takes_all_its_pages_there(two_packages: Report, pod: str, pages: dict[str, int]) -> None:
    assert two_packages.facts[f"hugepages: pages of {pod}"] == pages
