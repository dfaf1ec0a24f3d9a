from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.cache import AnnotationReader
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.linux_resources import shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.qos import qos_of_cgroup
from cri_proxy.cri.read_request import MAX_LABELS, merge_update, pod_of, read_create, read_pod
from cri_proxy.cri.sandbox_config import stored_config
from cri_proxy.cri_client.pods import systemd_slice
from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import ContainerKey, DeviceLocality, HugePageLimit, Pod, QosClass, Request
from policies.device_requests import DeviceAmount, DeviceAsk
from sysfs.cpuset import CpuSet, NodeSet

GUARANTEED, BURSTABLE, BEST_EFFORT = "/kubepods/podu", "/kubepods/burstable/podu", "/kubepods/besteffort/podu"
GIB = 1 << 30
HINT = DeviceLocality("/dev/x", CpuSet.of([1]), NodeSet.of([0]))


def pod(cgroup: str = GUARANTEED, *, uid: str = "u", **annotations: str) -> pb.PodSandboxConfig:
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid=uid),
        labels={"b": "2", "a": "1"},
        annotations={f"cri-proxy.io/{k.replace('_', '-')}": v for k, v in annotations.items()},
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=cgroup),
    )


def message(**resources: int) -> pb.CreateContainerRequest:
    linux = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(**resources))  # type: ignore[arg-type]  # real names
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c0"), labels={"x": "y"}, linux=linux)
    return pb.CreateContainerRequest(pod_sandbox_id="sandbox", config=config)


def read(cgroup: str = GUARANTEED, *, node_memory_bytes: int = 0, **resources: int) -> Request:
    return read_create(message(**resources), pod(cgroup), node_memory_bytes=node_memory_bytes).request


def test_the_container_is_known_by_pod_uid_and_name() -> None:
    request = read()
    assert request.container == ContainerKey("u", "c0")
    assert (request.pod.name, request.pod.namespace, request.pod.labels) == ("web", "default", (("a", "1"), ("b", "2")))
    assert request.labels == (("x", "y"),)


def test_a_pod_without_uid_is_known_by_its_sandbox() -> None:
    assert read_create(message(), pod(uid="")).request.container == ContainerKey("sandbox", "c0")
    assert pod_of(pod(uid=""), sandbox_id="s").uid == "s"


@given(st.integers(10, 8_000_000))
def test_a_guaranteed_request_is_exact_at_any_size(mcpu: int) -> None:
    figures = {"cpu_shares": shares_of(mcpu), "cpu_quota": mcpu * 100, "cpu_period": 100_000}
    assert read(GUARANTEED, **figures).cpu_request_mcpu == mcpu


@given(st.integers(3, 9))
def test_below_the_least_quota_the_shares_know_a_guaranteed_request(mcpu: int) -> None:
    assert read(GUARANTEED, cpu_shares=shares_of(mcpu), cpu_quota=1000, cpu_period=100_000).cpu_request_mcpu == mcpu


def test_a_guaranteed_container_without_quota_is_read_from_its_shares() -> None:
    request = read(GUARANTEED, cpu_shares=2048)
    assert (request.cpu_request_mcpu, request.cpu_limit_mcpu) == (2000, None)


def test_a_burstable_request_comes_from_shares_and_its_limit_from_quota() -> None:
    request = read(BURSTABLE, cpu_shares=204, cpu_quota=50_000, cpu_period=100_000)
    assert (request.pod.qos, request.cpu_request_mcpu, request.cpu_limit_mcpu) == (QosClass.BURSTABLE, 200, 500)


def test_a_best_effort_container_asks_for_nothing() -> None:
    request = read(BEST_EFFORT, cpu_shares=2, oom_score_adj=1000, node_memory_bytes=64 * GIB)
    assert (request.cpu_request_mcpu, request.cpu_limit_mcpu, request.memory_request_bytes) == (0, None, 0)
    assert request.memory_limit_bytes is None


def test_a_guaranteed_container_requests_its_memory_limit() -> None:
    request = read(GUARANTEED, memory_limit_in_bytes=GIB, oom_score_adj=-997, node_memory_bytes=64 * GIB)
    assert (request.memory_request_bytes, request.memory_limit_bytes) == (GIB, GIB)


def test_a_burstable_memory_request_is_estimated_but_never_above_the_limit() -> None:
    assert read(BURSTABLE, cpu_shares=2, oom_score_adj=900, node_memory_bytes=10 * GIB).memory_request_bytes == GIB
    limited = read(BURSTABLE, memory_limit_in_bytes=GIB // 2, oom_score_adj=900, node_memory_bytes=10 * GIB)
    assert limited.memory_request_bytes == GIB // 2


def test_origins_name_the_field_behind_every_figure() -> None:
    result = read_create(message(cpu_shares=1024), pod(BURSTABLE, prefer_shared_cpus="true"))
    assert dict(result.request.origins) == {
        "prefer_shared": "cri-proxy.io/prefer-shared-cpus",
        "cpu_request_mcpu": "cpu_shares",
        "memory_request_bytes": "oom_score_adj",
        "qos": "cgroup_parent",
    }


def test_annotations_of_the_pod_become_wishes_and_bad_ones_problems() -> None:
    sandbox = pod(prefer_shared_cpus="{c0: -1}", prefer_isolated_cpus="perhaps", affinity="c0: [c1]")
    result = read_create(message(), sandbox)
    assert (result.request.preferences.levels_up, len(result.request.affinities)) == (1, 1)
    assert [p.key for p in result.problems] == ["cri-proxy.io/prefer-isolated-cpus"]


def test_hints_count_unless_the_pod_says_no() -> None:
    assert read_create(message(), pod(), localities=[HINT]).request.localities == (HINT,)
    assert read_create(message(), pod(topologyhints="false"), localities=[HINT]).request.localities == ()


WITH_SUMS = pb.LinuxContainerResources(
    cpu_shares=5120, cpu_quota=500_000, cpu_period=100_000, memory_limit_in_bytes=GIB
)


def summed(**annotations: str) -> pb.PodSandboxConfig:
    sandbox = pod(**annotations)
    sandbox.linux.resources.CopyFrom(WITH_SUMS)
    return sandbox


def test_the_sums_of_a_pod_are_read_where_its_hints_are_merged_as_a_whole() -> None:
    sums, options = PodSums(5000, GIB), TopologyOptions(TopologyPolicy.RESTRICTED, TopologyScope.POD)
    by_annotation = summed(topology_policy="restricted", topology_scope="pod")
    for sandbox, chosen in ((by_annotation, TopologyOptions()), (summed(), options)):
        assert read_create(message(), sandbox, topology=chosen).request.pod_sums == sums
        whole = read_pod(sandbox, annotations=AnnotationReader(), topology=chosen)
        assert whole is not None
        assert (whole.pod_sums, whole.container, whole.pod.qos) == (sums, ContainerKey("u", ""), QosClass.GUARANTEED)


def gpus(count: int) -> DeviceAmount:
    return DeviceAmount("gpu", count)


def test_the_sums_of_a_pod_have_the_devices_of_all_containers_that_it_names() -> None:
    sandbox = summed(
        topology_policy="restricted", topology_scope="pod", device_request="{c0: gpu=2, c1: gpu=1, c2: nic=1}"
    )
    devices = (DeviceAsk((gpus(3), DeviceAmount("nic", 1))),)
    whole = read_pod(sandbox, annotations=AnnotationReader(), topology=TopologyOptions())
    assert whole is not None
    assert whole.pod_sums == PodSums(5000, GIB, devices)
    request = read_create(message(), sandbox).request
    assert (request.pod_sums, request.preferences.devices) == (whole.pod_sums, DeviceAsk((gpus(2),)))


def test_the_sums_of_a_pod_have_what_each_of_its_containers_asks_of_the_inventory() -> None:
    values = "{c0: nvidia.com/gpu=2, c1: gpu-core=50}"
    sandbox = summed(topology_policy="restricted", topology_scope="pod", device_resources=values)
    request = read_create(message(), sandbox).request
    assert request.pod_sums is not None
    one, other = request.pod_sums.devices
    assert (one, other.requests) == (request.preferences.devices, (("koordinator.sh/gpu-core", 50),))


@pytest.mark.parametrize(
    "sandbox",
    [summed(), summed(topology_policy="restricted"), summed(topology_scope="pod"), pod(topology_scope="pod")],
)
def test_otherwise_no_sums_are_read(sandbox: pb.PodSandboxConfig) -> None:
    assert read_create(message(), sandbox).request.pod_sums is None
    assert read_pod(sandbox, annotations=AnnotationReader(), topology=TopologyOptions()) is None


def test_an_empty_message_is_a_container_that_asks_for_nothing() -> None:
    request = read_create(pb.CreateContainerRequest(), pb.PodSandboxConfig()).request
    assert (request.pod.qos, request.cpu_request_mcpu) == (QosClass.BEST_EFFORT, 0)


def test_pod_of_asks_the_pods_own_sum_where_the_cgroup_tells_nothing() -> None:
    sandbox = pod("/custom")
    sandbox.linux.resources.cpu_shares = 512
    assert pod_of(sandbox).qos is QosClass.BURSTABLE


def patch(request: Request, *, node_memory_bytes: int = 0, **resources: int) -> Request:
    linux = pb.LinuxContainerResources(**resources)  # type: ignore[arg-type]  # real names
    return merge_update(request, linux, node_memory_bytes=node_memory_bytes)


@pytest.mark.parametrize("cgroup", [GUARANTEED, BURSTABLE, BEST_EFFORT])
def test_a_patch_of_zeros_changes_nothing(cgroup: str) -> None:
    request = read(cgroup, cpu_shares=2048, cpu_quota=200_000, memory_limit_in_bytes=GIB)
    assert patch(request) == request


def test_the_same_figures_again_change_nothing() -> None:
    figures = {"cpu_shares": 262_144, "cpu_quota": 30_000_000, "cpu_period": 100_000, "memory_limit_in_bytes": GIB}
    request = read(GUARANTEED, **figures)
    assert patch(request, **figures) == request
    assert patch(request, cpu_shares=262_144) == request


def test_a_resized_guaranteed_container_follows_its_new_quota_and_memory() -> None:
    request = read(GUARANTEED, cpu_shares=2048, cpu_quota=200_000, memory_limit_in_bytes=GIB)
    grown = patch(request, cpu_shares=3072, cpu_quota=300_000, cpu_period=100_000, memory_limit_in_bytes=2 * GIB)
    assert (grown.cpu_request_mcpu, grown.cpu_limit_mcpu) == (3000, 3000)
    assert (grown.memory_request_bytes, grown.memory_limit_bytes) == (2 * GIB, 2 * GIB)


def test_a_resized_burstable_container_changes_only_what_is_named() -> None:
    request = read(BURSTABLE, cpu_shares=1024, cpu_quota=200_000, memory_limit_in_bytes=GIB)
    assert patch(request, cpu_shares=512).cpu_request_mcpu == 500
    assert patch(request, cpu_shares=512).cpu_limit_mcpu == 2000
    assert patch(request, cpu_quota=-1).cpu_limit_mcpu is None
    assert patch(request, cpu_quota=-1).cpu_request_mcpu == 1000


def test_a_new_oom_score_adj_is_a_new_memory_request() -> None:
    request = read(BURSTABLE, cpu_shares=1024)
    assert patch(request, oom_score_adj=900, node_memory_bytes=10 * GIB).memory_request_bytes == GIB


def test_an_annotation_with_exact_requests_wins_and_is_named() -> None:
    sandbox = pod(BURSTABLE)
    key = "noderesource.dev/resources"
    sandbox.annotations[key] = '{"containers": {"c0": {"requests": {"memory": "1030Mi"}}}}'
    request = message(cpu_shares=204, oom_score_adj=900)
    result = read_create(request, sandbox, node_memory_bytes=10 * GIB)
    assert result.request.memory_request_bytes == 1030 << 20
    assert dict(result.request.origins)["memory_request_bytes"] == key
    sandbox.annotations[key] = "[]"
    assert [p.key for p in read_create(request, sandbox).problems] == [key]


def test_a_resize_that_says_what_is_known_keeps_what_is_known_better() -> None:
    exact = replace(read(BURSTABLE, cpu_shares=204), memory_request_bytes=1030 << 20)
    told = {"cpu_shares": 512, "oom_score_adj": 900}
    resized = patch(exact, node_memory_bytes=10 * GIB, **told)
    assert (resized.cpu_request_mcpu, resized.memory_request_bytes) == (500, 1030 << 20)


def test_a_resize_leaves_its_mark_on_the_origins_of_what_it_changed() -> None:
    request = read(BURSTABLE, cpu_shares=1024, cpu_quota=200_000)
    origins = dict(patch(request, cpu_shares=512, cpu_quota=200_000).origins)
    assert origins["cpu_request_mcpu"] == "cpu_shares of a resize"
    assert origins["cpu_limit_mcpu"] == "cpu_quota, cpu_period"


def test_a_lower_memory_limit_bounds_the_request() -> None:
    request = read(BURSTABLE, oom_score_adj=500, node_memory_bytes=4 * GIB)
    assert patch(request, memory_limit_in_bytes=GIB).memory_request_bytes == GIB


def test_hints_name_their_kind_or_the_annotation_that_chose_them() -> None:
    config = message()
    config.config.devices.add(host_path="/dev/x")
    assert dict(read_create(config, pod(), localities=[HINT]).request.origins)["localities"] == "devices"
    chosen = read_create(config, pod(topologyhints="devices"), localities=[HINT]).request
    assert (chosen.localities, dict(chosen.origins)["localities"]) == ((HINT,), "cri-proxy.io/topologyhints")


# What a kubelet sends, by kind of container (kuberuntime_container_linux.go, by its behaviour).
SHARES_OF_NOTHING, ADJ_OF_GUARANTEED = 2, -997


@pytest.mark.parametrize("is_systemd", [False, True], ids=["cgroupfs", "systemd"])
@pytest.mark.parametrize("root", [(), ("kubelet",), ("a-b", "c")], ids=str)
@pytest.mark.parametrize("level", [(), ("burstable",), ("besteffort",)], ids=str)
def test_the_cgroup_tells_the_class_under_any_driver_and_root(
    is_systemd: bool, root: tuple[str, ...], level: tuple[str, ...]
) -> None:
    path = (*root, "kubepods", *level, "pod6c2f-11")
    cgroup = systemd_slice(path) if is_systemd else "/" + "/".join(path)
    told = {(): QosClass.GUARANTEED, ("burstable",): QosClass.BURSTABLE, ("besteffort",): QosClass.BEST_EFFORT}
    assert read(cgroup, cpu_shares=2).pod.qos is told[level]


def test_an_init_container_and_a_sidecar_are_read_like_any_other() -> None:
    figures = {"cpu_shares": 1024, "cpu_quota": 100_000, "cpu_period": 100_000, "memory_limit_in_bytes": GIB}
    request = read(GUARANTEED, oom_score_adj=ADJ_OF_GUARANTEED, **figures)
    assert (request.cpu_request_mcpu, request.memory_request_bytes) == (1000, GIB)


@pytest.mark.parametrize("cgroup", [GUARANTEED, BURSTABLE, BEST_EFFORT])
def test_an_ephemeral_container_asks_for_nothing_and_has_the_class_of_its_pod(cgroup: str) -> None:
    adj = {GUARANTEED: ADJ_OF_GUARANTEED, BURSTABLE: 999, BEST_EFFORT: 1000}[cgroup]
    request = read(cgroup, cpu_shares=SHARES_OF_NOTHING, oom_score_adj=adj, node_memory_bytes=64 * GIB)
    assert request.pod.qos is qos_of_cgroup(cgroup)
    assert (request.cpu_request_mcpu, request.cpu_limit_mcpu, request.memory_request_bytes) == (0, None, 0)


def test_a_static_pod_has_a_hash_for_a_uid_and_no_dashes_in_its_cgroup() -> None:
    uid = "5dbf39ea5ea1e9b2cd0d0b1a4e5d3e71"
    systemd = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"
    request = read_create(message(cpu_shares=102), pod(systemd, uid=uid)).request
    assert (request.pod.uid, request.pod.qos, request.cpu_request_mcpu) == (uid, QosClass.BURSTABLE, 100)


def test_a_guaranteed_container_whose_kubelet_enforces_no_quota_is_read_from_its_shares() -> None:
    request = read(GUARANTEED, cpu_shares=4096, cpu_quota=-1, memory_limit_in_bytes=GIB)
    assert (request.cpu_request_mcpu, request.cpu_limit_mcpu, request.memory_request_bytes) == (4000, None, GIB)


def test_a_container_of_a_pod_with_resources_of_its_own_may_have_none() -> None:
    request = read(GUARANTEED, cpu_shares=SHARES_OF_NOTHING, oom_score_adj=ADJ_OF_GUARANTEED)
    assert (request.pod.qos, request.cpu_request_mcpu) == (QosClass.GUARANTEED, 0)


@pytest.mark.parametrize("count", [MAX_LABELS, MAX_LABELS + 1, 30_000])
def test_of_too_many_labels_none_is_read_and_that_is_a_problem(count: int) -> None:
    sandbox = pod()
    sandbox.labels.clear()
    sandbox.labels.update({f"l{i}": "" for i in range(count)})
    read = read_create(message(), sandbox)
    assert len(read.request.pod.labels) == (count if count <= MAX_LABELS else 0)
    assert len(stored_config(sandbox, DOMAINS).labels) == len(read.request.pod.labels)
    assert [p.problem for p in read.problems] == [
        f"the pod has {count}, more than 512: affinities see none of them" for _ in range(count > MAX_LABELS)
    ]


def with_huge_pages(limit: int) -> pb.LinuxContainerResources:
    resources = pb.LinuxContainerResources(cpu_shares=1024)
    resources.hugepage_limits.add(page_size="2MB", limit=limit)
    return resources


def test_huge_pages_are_read_and_an_update_without_them_changes_none() -> None:
    created = message()
    created.config.linux.resources.CopyFrom(with_huge_pages(4 << 20))
    request = read_create(created, pod()).request
    assert request.huge_pages == (HugePageLimit(2 << 20, 4 << 20),)
    assert dict(request.origins)["huge_pages"] == "hugepage_limits"
    assert merge_update(request, pb.LinuxContainerResources(cpu_shares=512)).huge_pages == request.huge_pages
    assert merge_update(request, with_huge_pages(8 << 20)).huge_pages == (HugePageLimit(2 << 20, 8 << 20),)
    assert merge_update(request, with_huge_pages(0)).huge_pages == ()


def test_a_request_below_a_guaranteed_pods_quota_follows_the_shares() -> None:
    """A container with a CPU request of its own and the limit of its pod."""
    own = Request(ContainerKey("u", "c"), Pod("u", "p", "default", QosClass.GUARANTEED), 1000, cpu_limit_mcpu=4000)
    linux = pb.LinuxContainerResources(cpu_shares=1024, cpu_quota=400_000, cpu_period=100_000)
    assert merge_update(own, linux).cpu_request_mcpu == 1000
    linux.cpu_shares = 2048
    assert merge_update(own, linux).cpu_request_mcpu == 2000
