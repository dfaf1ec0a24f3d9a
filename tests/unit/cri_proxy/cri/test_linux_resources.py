import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.linux_resources import (
    burstable_oom_score_adj,
    mcpu_of_quota,
    mcpu_of_shares,
    memory_request_of,
    quota_of,
    shares_of,
)


@given(st.integers(3, 255_999))
def test_every_request_up_to_256_cpus_comes_back_exactly_from_its_shares(mcpu: int) -> None:
    assert mcpu_of_shares(shares_of(mcpu)) == mcpu


@pytest.mark.parametrize("mcpu", [0, 1, 2])
def test_requests_below_the_kernels_minimum_read_as_none(mcpu: int) -> None:
    assert mcpu_of_shares(shares_of(mcpu)) == 0


def test_shares_saturate_at_256_cpus() -> None:
    assert mcpu_of_shares(shares_of(400_000)) == 256_000


@given(st.integers(0, 300_000))
def test_shares_that_no_kubelet_writes_give_the_nearest_request(shares: int) -> None:
    assert abs(shares_of(mcpu_of_shares(shares)) - max(2, min(shares, 262144))) <= 1


@given(st.integers(10, 1_000_000), st.sampled_from([1000, 5000, 50_000, 100_000, 1_000_000]))
def test_every_limit_comes_back_exactly_from_quota_and_period(mcpu: int, period_us: int) -> None:
    assert mcpu_of_quota(mcpu * period_us // 1000, period_us) == mcpu


@pytest.mark.parametrize("quota_us", [0, -1])
def test_no_quota_is_no_limit(quota_us: int) -> None:
    assert mcpu_of_quota(quota_us, 100_000) is None


def test_a_quota_without_a_period_has_the_kernels_default_period() -> None:
    assert mcpu_of_quota(200_000, 0) == 2000


@given(st.integers(1 << 28, 1 << 44), st.integers(0, 1000))
def test_the_memory_request_is_the_least_that_gives_the_same_oom_score_adj(node_bytes: int, permille: int) -> None:
    request = node_bytes * permille // 1000
    adj = burstable_oom_score_adj(request, node_bytes)
    told = memory_request_of(adj, node_bytes)
    assert told <= request
    assert burstable_oom_score_adj(told, node_bytes) == adj


@pytest.mark.parametrize("adj", [-997, 0, 2, 1000])
def test_a_score_that_is_not_of_a_burstable_container_tells_nothing(adj: int) -> None:
    assert memory_request_of(adj, 1 << 34) == 0


def test_without_the_nodes_memory_nothing_is_told() -> None:
    assert memory_request_of(500, 0) == 0


@pytest.mark.parametrize(("gib", "adj"), [(0, 999), (1, 900), (5, 500), (10, 3)])
def test_the_score_falls_with_the_share_of_the_nodes_memory_between_its_ends(gib: int, adj: int) -> None:
    assert burstable_oom_score_adj(gib << 30, 10 << 30) == adj


@given(st.integers(10, 8_000_000), st.sampled_from([0, 10_000, 100_000]))
def test_a_quota_gives_its_limit_back(mcpu: int, period_us: int) -> None:
    quota = quota_of(mcpu, period_us)
    assert quota_of(mcpu_of_quota(quota, period_us) or 0, period_us) == quota
