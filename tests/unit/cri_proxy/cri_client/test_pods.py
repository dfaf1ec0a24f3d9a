from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.linux_resources import shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import (
    SEEN,
    ContainerRole,
    ContainerSpec,
    KubeletNode,
    PodSpec,
    cgroup_parent,
    container_score,
    cpu_quota,
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
    assert 2 <= shares_of(mcpu) <= 262_144
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


INIT, SIDECAR = ContainerRole.INIT, ContainerRole.SIDECAR


@pytest.mark.parametrize(
    ("containers", "shares", "quota", "limit_bytes"),
    [
        ((guaranteed("a", 1000), ContainerSpec("b", cpu_request_mcpu=500)), 1536, 100_000, 32 << 20),
        ((ContainerSpec("a"),), 2, 0, 0),
        ((ContainerSpec("i", 3000, role=INIT), ContainerSpec("a", 1000)), 3072, 0, 0),
        ((ContainerSpec("i", 500, role=INIT), ContainerSpec("a", 1000)), 1024, 0, 0),
        ((ContainerSpec("s", 500, role=SIDECAR), ContainerSpec("a", 1000)), 1536, 0, 0),
        (
            (ContainerSpec("s", 500, role=SIDECAR), ContainerSpec("i", 2000, role=INIT), ContainerSpec("a", 1000)),
            2560,
            0,
            0,
        ),
        (
            (ContainerSpec("i", 2000, role=INIT), ContainerSpec("s", 500, role=SIDECAR), ContainerSpec("a", 1000)),
            2048,
            0,
            0,
        ),
        ((ContainerSpec("a", 1000), ContainerSpec("e", role=ContainerRole.EPHEMERAL)), 1024, 0, 0),
    ],
)
def test_the_sandbox_has_the_sums_of_the_limits_there_are_and_what_init_containers_take(
    containers: tuple[ContainerSpec, ...], shares: int, quota: int, limit_bytes: int
) -> None:
    linux = sandbox_config(PodSpec("p", containers), NODE).linux
    assert (linux.resources.cpu_shares, linux.resources.cpu_quota, linux.resources.cpu_period) == (
        shares,
        quota,
        100_000,
    )
    assert linux.resources.memory_limit_in_bytes == limit_bytes
    assert linux.HasField("overhead")
    assert linux.overhead == pb.LinuxContainerResources()


def test_the_overhead_is_request_and_limit_alike_and_no_part_of_the_sums() -> None:
    linux = sandbox_config(PodSpec("p", (guaranteed("a", 1000),), overhead_mcpu=250, overhead_bytes=64), NODE).linux
    overhead = linux.overhead
    assert (overhead.cpu_shares, overhead.cpu_quota, overhead.cpu_period) == (256, 25_000, 100_000)
    assert (overhead.memory_limit_in_bytes, linux.resources.cpu_shares) == (64, 1024)


# Path in CreateContainerRequest, and what kubelet 1.35 puts there for a plain container: kuberuntime_sandbox.go,
# kuberuntime_container.go, kuberuntime_container_linux.go, labels.go, security_context.go.
WORDED = [
    ("sandbox_config.hostname", ""),  # in the host's network namespace
    ("sandbox_config.log_directory", "/logs/n_p_U"),
    ("sandbox_config.annotations[kubernetes.io/config.source]", "api"),
    ("sandbox_config.annotations[kubernetes.io/config.seen]", SEEN),
    ("sandbox_config.linux.cgroup_parent", "/top/kubepods/burstable/podU"),
    ("sandbox_config.linux.security_context.privileged", False),
    ("sandbox_config.linux.security_context.seccomp.profile_type", pb.SecurityProfile.RuntimeDefault),
    ("sandbox_config.linux.security_context.namespace_options.network", pb.NODE),
    ("config.metadata.attempt", 2),
    ("config.image.user_specified_image", NODE.image),
    ("config.log_path", "a/2.log"),
    ("config.annotations[io.kubernetes.container.restartCount]", "2"),
    ("config.annotations[io.kubernetes.container.terminationMessagePath]", "/dev/termination-log"),
    ("config.annotations[io.kubernetes.container.terminationMessagePolicy]", "File"),
    ("config.annotations[io.kubernetes.pod.terminationGracePeriod]", "30"),
    ("config.linux.resources.cpu_shares", 102),
    ("config.linux.resources.cpu_quota", 0),
    ("config.linux.resources.cpu_period", 100_000),
    ("config.linux.resources.memory_limit_in_bytes", 0),
    ("config.linux.resources.memory_swap_limit_in_bytes", 0),
    ("config.linux.resources.oom_score_adj", 999),
    ("config.linux.resources.cpuset_cpus", ""),
    ("config.linux.security_context.seccomp.profile_type", pb.SecurityProfile.Unconfined),
    ("config.linux.security_context.run_as_user.value", 0),
    ("config.linux.security_context.namespace_options.pid", pb.CONTAINER),
]


@pytest.mark.parametrize(("path", "value"), WORDED, ids=[path for path, _ in WORDED])
def test_a_plain_container_is_worded_as_the_kubelet_words_it(path: str, value: object) -> None:
    pod = PodSpec("p", (ContainerSpec("a", 100),), namespace="n", uid="U")
    found: object = create_request(pod, pod.containers[0], "S", node=NODE, attempt=2)
    names, _, key = path.partition("[")
    for name in names.split("."):
        found = getattr(found, name)
    assert (cast("dict[str, str]", found)[key.removesuffix("]")] if key else found) == value


def test_huge_pages_are_limited_to_none_and_swap_and_oom_groups_are_said_in_the_words_of_the_cgroups() -> None:
    pod = PodSpec("p", (guaranteed("a", 1000, memory_bytes=GIB),))
    both = [replace(NODE, has_cgroup2=is_v2, has_swap=True) for is_v2 in (True, False)]
    second, first = (create_request(pod, pod.containers[0], "S", node=node).config.linux.resources for node in both)
    assert [(limit.page_size, limit.limit) for limit in first.hugepage_limits] == [("2MB", 0), ("1GB", 0)]
    some = create_request(pod, replace(pod.containers[0], huge_pages=(("1GB", GIB),)), "S", node=NODE).config.linux
    assert [(limit.page_size, limit.limit) for limit in some.resources.hugepage_limits] == [("2MB", 0), ("1GB", GIB)]
    assert dict(second.unified) == {"memory.oom.group": "1", "memory.swap.max": "0"}
    assert (dict(first.unified), first.memory_swap_limit_in_bytes) == ({}, GIB)


def test_a_pod_with_a_network_of_its_own_has_a_hostname() -> None:
    config = sandbox_config(PodSpec("p", (ContainerSpec("a"),), host_network=False), NODE)
    assert (config.hostname, config.linux.security_context.namespace_options.network) == ("p", pb.POD)


def test_a_sidecar_is_killed_no_sooner_than_a_regular_container() -> None:
    sidecar = ContainerSpec("s", role=SIDECAR)
    pod = PodSpec("p", (sidecar, ContainerSpec("a", memory_request_bytes=GIB)))
    assert container_score(pod, sidecar, 4 * GIB) == oom_score_adj(QosClass.BURSTABLE, GIB, 4 * GIB)
    assert container_score(pod, pod.containers[1], 4 * GIB) == 750
    alone = PodSpec("p", (sidecar, ContainerSpec("a")))
    assert container_score(alone, sidecar, 4 * GIB) == 1000


def test_equal_pods_have_equal_uids_and_others_do_not() -> None:
    assert PodSpec("p", ()).pod_uid == PodSpec("p", ()).pod_uid
    assert len({PodSpec("p", ()).pod_uid, PodSpec("q", ()).pod_uid, PodSpec("p", (), namespace="n").pod_uid}) == 3
