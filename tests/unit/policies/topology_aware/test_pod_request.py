"""What a new container means for the others of its pod, where the pod has resources of its own."""

from policies.base import Allocations, CpuKind, Grant, Request
from policies.pod_share import PodShare, PodTotals
from policies.topology_aware.pod_request import Arrival, arrival_of, siblings_of
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BURSTABLE, GUARANTEED, request

GIB = 1 << 30
FOUR = PodTotals(4000, 4000, 4 * GIB, shares_cpu=True, shares_memory=True)


def with_all(name: str, totals: PodTotals = FOUR) -> Request:
    """A container without resources of its own in a Guaranteed pod of four CPUs: the kubelet writes the pod's."""
    return request(
        name, 4000, GUARANTEED, cpu_limit_mcpu=4000, memory_limit_bytes=4 * GIB, memory_request_bytes=4 * GIB,
        pod_totals=totals,
    )  # fmt: skip


def with_own(name: str, mcpu: int, memory_bytes: int = GIB) -> Request:
    return request(
        name, mcpu, GUARANTEED, cpu_limit_mcpu=mcpu, memory_limit_bytes=memory_bytes, memory_request_bytes=memory_bytes,
        pod_totals=PodTotals(4000, 4000, 4 * GIB),
    )  # fmt: skip


def holding(*requests: Request, share: PodShare | None = None) -> Allocations:
    grants = (Grant(r, "root", CpuKind.EXCLUSIVE, CpuSet.parse("0-3"), share=share) for r in requests)
    return Allocations().with_grants(*grants)


def bare(asked: Request) -> Request:
    return request(
        asked.container.name if "/" in asked.container.name else f"p/{asked.container.name}", asked.cpu_request_mcpu,
        cpu_limit_mcpu=asked.cpu_limit_mcpu, memory_limit_bytes=asked.memory_limit_bytes,
        memory_request_bytes=asked.memory_request_bytes,
    )  # fmt: skip


def test_the_first_container_is_as_in_any_pod() -> None:
    asked = with_all("p/a")
    assert arrival_of(Allocations(), asked) == Arrival(bare(asked))


def test_the_second_with_all_of_the_pods_figures_shares_with_the_first() -> None:
    first, second = bare(with_all("p/a")), with_all("p/b")
    found = arrival_of(holding(first), second)
    share = PodShare(4000, 4 * GIB)
    assert (found.request, found.share, found.joins) == (bare(second), share, True)
    assert dict(found.shares) == {first.container: share}


def test_a_container_with_its_own_request_takes_it_from_the_others() -> None:
    first = bare(with_all("p/a"))
    found = arrival_of(holding(first), with_own("p/own", 1000))
    assert (found.share, found.joins, dict(found.shares)) == (None, False, {first.container: PodShare(3000, 3 * GIB)})


def test_a_first_container_whose_limit_exceeds_the_pods_request_has_the_request() -> None:
    totals = PodTotals(1000, 4000, 4 * GIB, shares_cpu=True)
    asked = request("p/a", 4000, BURSTABLE, cpu_limit_mcpu=4000, memory_limit_bytes=4 * GIB, pod_totals=totals)
    assert arrival_of(Allocations(), asked).share == PodShare(1000, None)


def test_after_one_with_its_own_request_the_next_has_the_rest() -> None:
    found = arrival_of(holding(bare(with_own("p/own", 1000))), with_all("p/a"))
    assert (found.share, found.joins) == (PodShare(3000, 3 * GIB), False)


def test_a_sibling_without_a_limit_shows_that_the_figures_are_a_sum() -> None:
    sidecar = request("p/s", 100, BURSTABLE)
    found = arrival_of(holding(sidecar), with_all("p/a"))
    assert found.is_plain


def test_one_that_asks_for_other_cpus_is_booked_with_nothing_beside_those_that_share() -> None:
    first = bare(with_all("p/a"))
    asked = with_all("p/b")
    other = request(
        "p/b", 4000, cpu_limit_mcpu=4000, memory_limit_bytes=4 * GIB, memory_request_bytes=4 * GIB, prefer_shared=True,
        pod_totals=asked.pod_totals,
    )  # fmt: skip
    found = arrival_of(holding(first), other)
    assert (found.request.cpu_request_mcpu, found.joins) == (0, False)


def test_one_that_keeps_its_cpuset_shares_nothing() -> None:
    asked = request("p/b", 4000, cpu_limit_mcpu=4000, preserve_cpu=True, pod_totals=FOUR)
    assert arrival_of(holding(bare(with_all("p/a"))), asked).is_plain


def test_one_that_is_placed_again_keeps_what_it_shares() -> None:
    a, b = bare(with_all("p/a")), bare(with_all("p/b"))
    held = holding(a, b, share=PodShare(4000, 4 * GIB))
    found = arrival_of(held, b)
    assert (found.is_again, found.joins, found.share) == (True, True, PodShare(4000, 4 * GIB))


def test_siblings_are_of_the_same_pod() -> None:
    held = holding(request("o/x"), request("p/a"), request("p/b"), request("q/a"))
    assert [g.container.name for g in siblings_of(held, request("p/b").container)] == ["a"]
    assert siblings_of(held, request("z/b").container) == []
