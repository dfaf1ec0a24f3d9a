from dataclasses import replace

import pytest

from cri_proxy.config.thread_variables import VARIABLES
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.thread_count import thread_count, variables_to_set
from policies.base import CpuKind, Grant, Pinning, QosClass
from policies.preferences import ThreadCounts
from sysfs.cpuset import CpuSet
from tests.fakes.grants import request

OWNED, REQUEST, NONE = ThreadCounts.OWNED, ThreadCounts.REQUEST, ThreadCounts.NONE


def grant(kind: CpuKind, mcpu: int, owned: str = "", qos: QosClass = QosClass.GUARANTEED) -> Grant:
    asked = request("c", mcpu)
    asked = replace(asked, cpu_request_mcpu=mcpu, pod=replace(asked.pod, qos=qos))
    return Grant(asked, "root", kind, exclusive=CpuSet.parse(owned))


@pytest.mark.parametrize(
    ("held", "cpus", "by_owned", "by_request"),
    [
        (grant(CpuKind.EXCLUSIVE, 4000, "0-3"), "0-3", 4, 4),
        (grant(CpuKind.EXCLUSIVE, 3000, "0-3"), "0-3", 4, 4),  # whole cores
        (grant(CpuKind.EXCLUSIVE, 4000, "0-3"), "0,2", 2, 2),  # one thread of each core is hidden
        (grant(CpuKind.EXCLUSIVE, 4000, "0-3"), None, 4, 4),  # PinCPU: false
        (grant(CpuKind.MIXED, 2500, "0-1"), "0-7", 2, 3),
        (grant(CpuKind.SHARED, 100, qos=QosClass.BURSTABLE), "0-7", 0, 1),
        (grant(CpuKind.SHARED, 2001, qos=QosClass.BURSTABLE), "0-7", 0, 3),
        (grant(CpuKind.SHARED, 2, qos=QosClass.BEST_EFFORT), "0-7", 0, 0),
        (grant(CpuKind.RESERVED, 100), "0", 0, 1),
        (grant(CpuKind.PRESERVE, 2000), None, 0, 2),
    ],
)
def test_a_count_follows_what_it_has_alone_or_what_it_asks_for(
    held: Grant, cpus: str | None, by_owned: int, by_request: int
) -> None:
    pinning = Pinning(None if cpus is None else CpuSet.parse(cpus))
    assert [thread_count(held, pinning, source) for source in (OWNED, REQUEST, NONE)] == [by_owned, by_request, 0]


def test_no_variable_of_the_pod_is_set_whatever_it_says() -> None:
    envs = [pb.KeyValue(key="GOMAXPROCS", value=b""), pb.KeyValue(key="omp_num_threads", value=b"1")]
    assert variables_to_set(envs, ("GOMAXPROCS", "OMP_NUM_THREADS"), 4) == (("OMP_NUM_THREADS", "4"),)


def test_a_name_that_stands_twice_is_set_once() -> None:
    assert variables_to_set([], ("A", "A"), 2) == (("A", "2"),)


def test_without_a_count_nothing_is_set() -> None:
    assert variables_to_set([], VARIABLES, 0) == ()
