import pytest

from cri_proxy.cri.amounts import figures_of
from cri_proxy.cri.linux_resources import shares_of
from cri_proxy.cri.pod_amounts import pod_request_mcpu, pod_totals_of, with_own_request
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass
from policies.pod_share import PodTotals

GIB, MIB = 1 << 30, 1 << 20


def pod_fields(mcpu: int, limit_mcpu: int, limit_bytes: int = GIB) -> dict[str, int]:
    fields = {"cpu_shares": shares_of(mcpu), "cpu_period": 100_000, "memory_limit_in_bytes": limit_bytes}
    return fields | ({"cpu_quota": limit_mcpu * 100} if limit_mcpu else {})


def totals(qos: QosClass, pod: dict[str, int], container: dict[str, int]) -> PodTotals | None:
    sandbox, own = (pb.LinuxContainerResources(**fields) for fields in (pod, container))  # type: ignore[arg-type]
    return pod_totals_of(qos, sandbox, own, figures_of(qos, own, 0))


@pytest.mark.parametrize(
    ("qos", "pod", "container", "expected"),
    [
        # without resources of its own: the pod's limits, and the shares of its CPU limit
        (QosClass.GUARANTEED, (4000, 4000), (4000, 4000), PodTotals(4000, 4000, GIB, True, True)),
        (QosClass.BURSTABLE, (1000, 4000), (4000, 4000), PodTotals(1000, 4000, GIB, True, True)),
        # a request or limit of its own
        (QosClass.GUARANTEED, (4000, 4000), (1000, 4000), PodTotals(4000, 4000, GIB, False, True)),
        (QosClass.GUARANTEED, (4000, 4000), (1000, 1000, MIB), PodTotals(4000, 4000, GIB, False, False)),
        # a kubelet that enforces no quotas writes the shares alone
        (QosClass.BURSTABLE, (1000, 0), (4000, 0), PodTotals(1000, None, GIB, True, True)),
        (QosClass.BURSTABLE, (3000, 0), (1000, 0), PodTotals(3000, None, GIB, False, True)),
        # sums: a container without a limit in a pod with one, a request above the limit, nothing known
        (QosClass.BURSTABLE, (4500, 4000), (500, 0, 0), None),
        (QosClass.BURSTABLE, (6000, 4000), (4000, 4000), PodTotals(0, None, GIB, False, True)),
        (QosClass.BEST_EFFORT, (0, 0, 0), (0, 0, 0), None),
    ],
)
def test_a_sandboxs_figures_may_be_the_pods_own(
    qos: QosClass, pod: tuple[int, ...], container: tuple[int, ...], expected: PodTotals | None
) -> None:
    assert totals(qos, pod_fields(*pod), pod_fields(*container)) == expected


def test_a_sandbox_that_says_nothing_tells_nothing() -> None:
    assert totals(QosClass.GUARANTEED, {}, pod_fields(4000, 4000)) is None


@pytest.mark.parametrize(
    ("qos", "mcpu", "limit_mcpu", "expected"),
    [
        (QosClass.BURSTABLE, 1500, 64_000, 1500),
        (QosClass.BEST_EFFORT, 0, 0, 0),
        (QosClass.GUARANTEED, 3, 3, 3),  # of which the least quota is that of 10m
        (QosClass.GUARANTEED, 300_000, 300_000, 300_000),
        (QosClass.BURSTABLE, 300_000, 900_000, 256_000),  # the quota says nothing of what is paid for
    ],
)
def test_a_pod_requests_what_its_shares_tell_and_the_quota_of_a_guaranteed_one_beyond(
    qos: QosClass, mcpu: int, limit_mcpu: int, expected: int
) -> None:
    fields = pod_fields(mcpu, max(10, limit_mcpu) if limit_mcpu else 0)
    assert pod_request_mcpu(qos, pb.LinuxContainerResources(**fields)) == expected  # type: ignore[arg-type]


def test_the_request_of_a_pod_that_is_not_told_is_not_known() -> None:
    assert pod_request_mcpu(QosClass.GUARANTEED, pb.LinuxContainerResources()) == 0


def test_a_guaranteed_pods_container_requests_what_its_shares_say_where_the_quota_is_the_pods() -> None:
    own = pb.LinuxContainerResources(**pod_fields(1000, 4000))  # type: ignore[arg-type]  # real names
    read = figures_of(QosClass.GUARANTEED, own, 0)
    found = with_own_request(read, PodTotals(4000, 4000, GIB), own)
    assert (read.cpu_request_mcpu, found.cpu_request_mcpu) == (4000, 1000)
    assert dict(found.origins)["cpu_request_mcpu"] == "cpu_shares, as the quota is the pod's"
    assert with_own_request(read, None, own) is read
