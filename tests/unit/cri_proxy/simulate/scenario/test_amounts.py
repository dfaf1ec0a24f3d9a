import pytest

from cri_proxy.cri_client.pods import ContainerSpec
from cri_proxy.simulate.scenario.amounts import (
    AMOUNT_ROWS,
    DEFAULT_MEMORY_BYTES,
    Amounts,
    container_spec,
    contradiction,
    resized,
)
from cri_proxy.simulate.scenario.parse import documents
from cri_proxy.yaml_fields import DocumentError
from policies.base import QosClass
from sysfs.documents.table import Table

GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT
MIB = 1 << 20


def read(text: str, qos: QosClass | None) -> Amounts:
    (part,) = documents(text, "s")
    found = Table(Amounts, *AMOUNT_ROWS, name="a container").read(part)
    if problem := contradiction(found, qos):
        raise part.refuse(problem)
    return found


def test_quantities_are_kubernetes_quantities() -> None:
    assert read("{cpu: 1.5, memory: 100Mi}", GUARANTEED) == Amounts(cpu_mcpu=1500, memory_bytes=100 * MIB)


@pytest.mark.parametrize(
    ("text", "qos", "problem"),
    [
        ("{cpu: lots}", None, "expected a quantity"),
        ("{cpu: -1}", None, "expected a quantity"),
        ("{cpu_request: 2, cpu_limit: 1}", None, "more than the limit"),
        ("{cpu: 1, cpu_request: 1, cpu_limit: 1}", None, "leave one out"),
        ("{hugepages: {2M: 1Gi}}", None, "write 2Mi or 1Gi"),
        ("{hugepages: {2Mi: 1M}}", None, "no multiple of 2Mi"),
        ("{hugepages: 1Gi}", None, "expected a mapping"),
        ("{cpu: 1}", BEST_EFFORT, "asks for nothing"),
        ("{memory: 1Gi}", GUARANTEED, "add cpu"),
        ("{cpu_request: 1, cpu_limit: 2}", GUARANTEED, "qos: burstable"),
    ],
)
def test_what_no_such_pod_could_ask_for_is_refused(text: str, qos: QosClass | None, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        read(text, qos)


def test_cpu_is_request_and_limit_except_in_a_burstable_pod() -> None:
    amounts = Amounts(cpu_mcpu=2000, memory_bytes=MIB)
    assert container_spec("c", amounts, None) == ContainerSpec("c", 2000, 2000, MIB, MIB)
    assert container_spec("c", amounts, BURSTABLE) == ContainerSpec("c", 2000, 0, MIB, 0)


def test_a_guaranteed_container_has_some_memory_though_nobody_spoke_of_it() -> None:
    spec = container_spec("c", Amounts(cpu_limit_mcpu=500), GUARANTEED)
    assert spec == ContainerSpec("c", 500, 500, DEFAULT_MEMORY_BYTES, DEFAULT_MEMORY_BYTES)


def test_a_resize_changes_what_it_speaks_of() -> None:
    before = ContainerSpec("c", 1000, 2000, MIB, 2 * MIB)
    assert resized(before, Amounts(cpu_request_mcpu=1500), BURSTABLE) == ContainerSpec("c", 1500, 2000, MIB, 2 * MIB)
    assert resized(before, Amounts(memory_limit_bytes=9), BURSTABLE).memory_limit_bytes == 9


def test_a_guaranteed_container_stays_one_when_it_is_resized() -> None:
    before = ContainerSpec("c", 1000, 1000, MIB, MIB)
    assert resized(before, Amounts(cpu_limit_mcpu=3000), GUARANTEED) == ContainerSpec("c", 3000, 3000, MIB, MIB)


def test_huge_pages_are_said_as_the_kubelet_says_them() -> None:
    amounts = read("{cpu: 1, hugepages: {2Mi: 1Gi, 1Gi: 2Gi}}", GUARANTEED)
    assert container_spec("a", amounts, GUARANTEED).huge_pages == (("2MB", 1 << 30), ("1GB", 2 << 30))
