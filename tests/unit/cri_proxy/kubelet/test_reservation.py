import pytest

from cri_proxy.kubelet.reservation import KubeletReserve, NodeCpus, reservation_gap
from sysfs.cpuset import CpuSet


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def node(*, available: str = "0-15", reserved: str = "", isolated: str = "") -> NodeCpus:
    return NodeCpus(cpus("0-15"), cpus(available), cpus(reserved), cpus(isolated))


def test_a_list_takes_the_place_of_both_amounts() -> None:
    assert [KubeletReserve(CpuSet(), 500, 1000).mcpu, KubeletReserve(cpus("0,8"), 500, 1000).mcpu] == [1500, 2000]


@pytest.mark.parametrize(
    ("reserve", "cpus_of_node"),
    [
        (KubeletReserve(), node()),
        (KubeletReserve(CpuSet(), 500, 500), node(reserved="0")),
        (KubeletReserve(cpus("0-1")), node(reserved="0-1")),
        (KubeletReserve(cpus("0,14-15")), node(reserved="0", isolated="14-15")),
        (KubeletReserve(cpus("0-3")), node(available="2-15", reserved="2-3")),
    ],
)
def test_reservations_of_the_same_size_agree(reserve: KubeletReserve, cpus_of_node: NodeCpus) -> None:
    assert reservation_gap(reserve, cpus_of_node) is None


def test_a_fraction_of_a_reserved_cpu_counts_as_allocatable() -> None:
    gap = reservation_gap(KubeletReserve(CpuSet(), 750, 0), node(reserved="0"))
    assert gap is not None
    assert (gap.allocatable_mcpu, gap.shared_mcpu, gap.excess_mcpu) == (15250, 15000, 250)
    assert gap.text == (
        "pods may request 15250m CPU (the kubelet has systemReserved: {cpu: 750m}), and cri-proxy can grant 15000m to "
        "any container (it keeps CPUs 0 (reserved) from shared use)"
    )
    assert gap.remedy.startswith('set reservedSystemCPUs: "0" in the kubelet\'s configuration')


def test_isolated_cpus_count_as_allocatable_too() -> None:
    gap = reservation_gap(KubeletReserve(), node(available="2-15", reserved="2", isolated="12-15"))
    assert gap is not None
    assert gap.excess_mcpu == 7000
    assert 'set reservedSystemCPUs: "0-2,12-15"' in gap.remedy
    assert "0-1 (not available), 2 (reserved), 12-15 (isolated by the kernel)" in gap.text
    assert gap.remedy.endswith("leave 12-15 out where pods ask for isolated CPUs")


def test_what_the_remedy_says_makes_both_agree() -> None:
    here = node(available="1-14", reserved="1", isolated="0,8-9")
    gap = reservation_gap(KubeletReserve(), here)
    assert gap is not None
    assert 'set reservedSystemCPUs: "0-1,8-9,15"' in gap.remedy
    assert reservation_gap(KubeletReserve(cpus("0-1,8-9,15")), here) is None


def test_a_kubelet_that_keeps_more_leaves_cpu_time_unused() -> None:
    gap = reservation_gap(KubeletReserve(cpus("0-3")), node(reserved="0"))
    assert gap is not None
    assert gap.excess_mcpu == -3000
    assert gap.remedy.endswith("or raise reservedResources.cpu here")


def test_a_reservation_that_only_the_kubelet_has_is_kept() -> None:
    gap = reservation_gap(KubeletReserve(cpus("0")), node())
    assert gap is not None
    assert gap.remedy.startswith("keep it for the node's own processes")
    assert (gap.key, gap.value) == ("", "")


def test_beside_a_cgroup_of_its_own_the_amount_is_set_as_a_list_of_cpus_stops_the_kubelet() -> None:
    reserve = KubeletReserve(CpuSet(), 100, 110, has_cgroups=True)
    gap = reservation_gap(reserve, node(reserved="0-1"))
    assert gap is not None
    assert gap.remedy.startswith("set kubeReserved.cpu: 1900m in the kubelet's configuration")
    assert (gap.key, gap.value) == ("kubeReserved.cpu", "1900m")
    more = reservation_gap(KubeletReserve(CpuSet(), 0, 4000, has_cgroups=True), node(reserved="0"))
    assert more is not None
    assert more.remedy.startswith("keep it")
