import pytest

from cri_proxy.cri.amounts import MAX_PAGE_SIZES, Figures, figures_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass

GIB = 1 << 30


def figures(qos: QosClass, *, node_memory_bytes: int = 0, **fields: int) -> Figures:
    resources = pb.LinuxContainerResources(**fields)  # type: ignore[arg-type]  # real names
    return figures_of(qos, resources, node_memory_bytes)


def test_every_figure_that_is_told_names_its_field() -> None:
    found = figures(
        QosClass.BURSTABLE, cpu_shares=512, cpu_quota=100_000, memory_limit_in_bytes=GIB, node_memory_bytes=4 * GIB
    )
    assert dict(found.origins) == {
        "cpu_request_mcpu": "cpu_shares",
        "cpu_limit_mcpu": "cpu_quota, cpu_period",
        "memory_request_bytes": "oom_score_adj",
        "memory_limit_bytes": "memory_limit_in_bytes",
    }


@pytest.mark.parametrize("qos", QosClass)
def test_a_limit_that_is_not_told_has_no_origin(qos: QosClass) -> None:
    found = figures(qos, cpu_shares=2, cpu_quota=-1)
    assert (found.cpu_limit_mcpu, found.memory_limit_bytes) == (None, None)
    assert [field for field, _ in found.origins] == ["cpu_request_mcpu", "memory_request_bytes"]


def test_a_guaranteed_request_is_its_quota_and_its_limit() -> None:
    found = figures(QosClass.GUARANTEED, cpu_shares=262144, cpu_quota=30_000_000, memory_limit_in_bytes=GIB)
    assert (found.cpu_request_mcpu, found.memory_request_bytes) == (300_000, GIB)
    assert dict(found.origins)["cpu_request_mcpu"] == "cpu_quota, cpu_period"


def test_where_the_quota_is_at_its_least_the_shares_know_a_smaller_request() -> None:
    found = figures(QosClass.GUARANTEED, cpu_shares=4, cpu_quota=1000)
    assert (found.cpu_request_mcpu, found.cpu_limit_mcpu) == (4, 10)


def huge_pages(*limits: tuple[str, int]) -> list[tuple[int, int]]:
    resources = pb.LinuxContainerResources()
    for size, limit in limits:
        resources.hugepage_limits.add(page_size=size, limit=limit)
    return [(p.page_bytes, p.limit_bytes) for p in figures_of(QosClass.GUARANTEED, resources, 0).huge_pages]


def test_huge_pages_are_those_with_a_limit_of_the_sizes_that_the_kubelet_lists() -> None:
    assert huge_pages(("1GB", 0), ("2MB", 4 << 20), ("64KB", 1 << 16)) == [(1 << 16, 1 << 16), (2 << 20, 4 << 20)]
    assert huge_pages(("1GB", 0), ("2MB", 0)) == []


@pytest.mark.parametrize("size", ["", "MB", "0MB", "2Mi", "-2MB", "2mb", "99999999999MB", "2MB\n", "٢MB"])
def test_a_size_that_no_kernel_has_counts_as_none(size: str) -> None:
    assert huge_pages((size, 1 << 30)) == []


def test_a_limit_above_any_memory_is_no_limit() -> None:
    assert huge_pages(("2MB", (1 << 64) - 1), ("1GB", 1 << 60)) == []


def test_the_sizes_of_a_container_are_bounded() -> None:
    assert len(huge_pages(*((f"{n}KB", 1 << 30) for n in range(1, 1000)))) == MAX_PAGE_SIZES
