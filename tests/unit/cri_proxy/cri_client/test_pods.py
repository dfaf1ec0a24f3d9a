import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri_client.pods import (
    ContainerSpec,
    KubeletNode,
    PodSpec,
    cgroup_parent,
    cpu_quota,
    cpu_shares,
    create_request,
    guaranteed,
    oom_score_adj,
    sandbox_config,
)
from policies.base import QosClass

GIB = 1 << 30
NODE = KubeletNode(memory_capacity_bytes=4 * GIB, log_directory="/logs", cgroup_root="/top")


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ((ContainerSpec("a"),), QosClass.BEST_EFFORT),
        ((guaranteed("a", 1000), guaranteed("b", 250)), QosClass.GUARANTEED),
        ((guaranteed("a", 1000), ContainerSpec("b")), QosClass.BURSTABLE),
        ((ContainerSpec("a", cpu_limit_mcpu=1000, memory_limit_bytes=GIB),), QosClass.GUARANTEED),
        ((ContainerSpec("a", cpu_limit_mcpu=1000),), QosClass.BURSTABLE),
        ((ContainerSpec("a", memory_request_bytes=1),), QosClass.BURSTABLE),
    ],
)
def test_the_qos_class_follows_from_requests_and_limits(containers: tuple[ContainerSpec, ...], qos: QosClass) -> None:
    assert PodSpec("p", containers).qos is qos


@pytest.mark.parametrize(
    ("container", "parent"),
    [
        (guaranteed("a", 1000), "/top/kubepods/podU"),
        (ContainerSpec("a", cpu_request_mcpu=1), "/top/kubepods/burstable/podU"),
        (ContainerSpec("a"), "/top/kubepods/besteffort/podU"),
    ],
)
def test_the_cgroup_parent_names_the_qos_class(container: ContainerSpec, parent: str) -> None:
    assert cgroup_parent(PodSpec("p", (container,), uid="U"), NODE) == parent


def test_the_cgroup_root_may_be_the_root() -> None:
    assert cgroup_parent(PodSpec("p", (ContainerSpec("a"),), uid="U"), KubeletNode(GIB)) == "/kubepods/besteffort/podU"


def test_the_systemd_driver_names_slices() -> None:
    pod = PodSpec("p", (ContainerSpec("a"),), uid="1-2")
    assert cgroup_parent(pod, KubeletNode(GIB, systemd_cgroups=True)) == (
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice"
    )


@given(st.integers(0, 2**20))
def test_shares_and_quota_stay_within_what_the_kernel_takes(mcpu: int) -> None:
    assert 2 <= cpu_shares(mcpu) <= 262_144
    assert cpu_quota(mcpu) == 0 or cpu_quota(mcpu) >= 1000


@pytest.mark.parametrize(("request_bytes", "score"), [(0, 999), (GIB, 750), (4 * GIB, 3), (8 * GIB, 3)])
def test_a_burstable_score_falls_with_the_request_and_stays_between_the_other_classes(
    request_bytes: int, score: int
) -> None:
    assert oom_score_adj(QosClass.BURSTABLE, request_bytes, 4 * GIB) == score


@pytest.mark.parametrize(("qos", "score"), [(QosClass.GUARANTEED, -997), (QosClass.BEST_EFFORT, 1000)])
def test_the_other_classes_have_one_score(qos: QosClass, score: int) -> None:
    assert oom_score_adj(qos, GIB, 4 * GIB) == score


def test_annotations_stand_on_the_sandbox_and_in_its_copy_but_not_on_the_container() -> None:
    pod = PodSpec("p", (ContainerSpec("a"),), annotations=(("prefer-shared-cpus.cri-proxy.io/pod", "true"),))
    request = create_request(pod, pod.containers[0], "S", node=NODE)
    assert request.sandbox_config == sandbox_config(pod, NODE)
    assert request.sandbox_config.annotations["prefer-shared-cpus.cri-proxy.io/pod"] == "true"
    assert "prefer-shared-cpus.cri-proxy.io/pod" not in request.config.annotations


def test_a_container_is_labelled_with_its_pod_and_name() -> None:
    pod = PodSpec("p", (ContainerSpec("a"),), namespace="n", uid="U")
    assert dict(create_request(pod, pod.containers[0], "S", node=NODE).config.labels) == {
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "n",
        "io.kubernetes.pod.uid": "U",
        "io.kubernetes.container.name": "a",
    }


def test_resources_are_worded_as_the_kubelet_words_them() -> None:
    pod = PodSpec("p", (guaranteed("a", 2500, memory_bytes=GIB),))
    linux = create_request(pod, pod.containers[0], "S", node=NODE).config.linux.resources
    assert (linux.cpu_shares, linux.cpu_quota, linux.cpu_period) == (2560, 250_000, 100_000)
    assert (linux.memory_limit_in_bytes, linux.oom_score_adj, linux.cpuset_cpus) == (GIB, -997, "")


def test_a_pod_without_a_limit_on_every_container_has_none() -> None:
    pod = PodSpec("p", (guaranteed("a", 1000), ContainerSpec("b", cpu_request_mcpu=500)))
    sums = sandbox_config(pod, NODE).linux.resources
    assert (sums.cpu_shares, sums.cpu_quota, sums.memory_limit_in_bytes) == (1536, 0, 0)


def test_equal_pods_have_equal_uids_and_others_do_not() -> None:
    assert PodSpec("p", ()).pod_uid == PodSpec("p", ()).pod_uid
    assert len({PodSpec("p", ()).pod_uid, PodSpec("q", ()).pod_uid, PodSpec("p", (), namespace="n").pod_uid}) == 3
