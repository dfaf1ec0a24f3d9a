from dataclasses import replace

from policies.base import CpuKind, Grant
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import request

FOUR = CpuSet.parse("0-3")


def grant(name: str, share: PodShare | None) -> Grant:
    return Grant(request(name, 4000), "root", CpuKind.EXCLUSIVE, exclusive=FOUR, share=share)


def test_only_containers_of_one_pod_share_its_cpus() -> None:
    one = grant("p/a", PodShare(4000))
    assert one.shares_cpus_with(grant("p/b", PodShare(4000)))
    assert not one.shares_cpus_with(grant("q/b", PodShare(4000)))
    assert not one.shares_cpus_with(grant("p/b", PodShare(memory_bytes=1)))
    assert not one.shares_cpus_with(grant("p/b", None))


def test_a_container_with_nothing_left_to_share_is_not_overcommitted() -> None:
    shared = replace(grant("p/a", PodShare(0)), kind=CpuKind.SHARED, exclusive=CpuSet())
    assert (shared.booked_for_mcpu, shared.is_overcommitted) == (0, False)
    assert replace(shared, share=None).is_overcommitted
