import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.cdi.conversion import Given
from cri_proxy.cri.cdi.edits import CdiNode
from cri_proxy.cri.devices.texts import DeviceTexts
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.write import (
    CDI_ANNOTATION,
    CdiInjection,
    CpuTime,
    Created,
    brings_own_mount,
    cpu_time_of,
    update_request,
    write_create,
    write_update,
)
from policies.base import CpuKind, Grant, Pinning
from policies.devices import DEVICE_ALLOCATED
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import request

BOTH = Pinning(CpuSet.parse("2-3"), NodeSet.parse("1"))
NOTHING = Pinning(None, None)
UNKNOWN = b"\xfa\x3f\x03new"  # field 1023, length-delimited: from a later version of the interface


def create(**resources: object) -> pb.CreateContainerRequest:
    linux = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(**resources))  # type: ignore[arg-type]  # real names
    return pb.CreateContainerRequest(pod_sandbox_id="s", config=pb.ContainerConfig(command=["sleep"], linux=linux))


def created(message: bytes, pinning: Pinning, grant: str | None = None) -> pb.CreateContainerRequest:
    return pb.CreateContainerRequest.FromString(write_create(message, pinning, Created(grant)))


def test_a_create_gets_our_sets_and_keeps_the_rest() -> None:
    before = create(cpu_shares=512, cpuset_cpus="0")
    expected = create(cpu_shares=512, cpuset_cpus="2-3", cpuset_mems="1")
    assert created(before.SerializeToString(), BOTH) == expected


def test_variables_are_added_to_those_of_the_pod() -> None:
    before = pb.CreateContainerRequest(config=pb.ContainerConfig(envs=[pb.KeyValue(key="A", value=b"1")]))
    after = write_create(before.SerializeToString(), NOTHING, Created(variables=(("B", "2"),)))
    envs = pb.CreateContainerRequest.FromString(after).config.envs
    assert [(env.key, env.value) for env in envs] == [("A", b"1"), ("B", b"2")]


def test_missing_parts_of_a_create_are_made() -> None:
    resources = created(b"", BOTH).config.linux.resources
    assert (resources.cpuset_cpus, resources.cpuset_mems) == ("2-3", "1")


def test_what_is_not_ours_keeps_the_callers_value() -> None:
    before = create(cpuset_cpus="0", cpuset_mems="0").SerializeToString()
    assert created(before, NOTHING).SerializeToString() == before
    assert created(before, Pinning(None, NodeSet.of([1]))).config.linux.resources.cpuset_cpus == "0"


def test_nothing_to_write_leaves_no_empty_parts() -> None:
    assert write_create(b"", NOTHING) == b""
    assert not pb.UpdateContainerResourcesRequest.FromString(write_update(b"", NOTHING)).HasField("linux")


def test_our_annotation_replaces_a_forged_one_even_by_nothing() -> None:
    forged = pb.CreateContainerRequest(config=pb.ContainerConfig(annotations={GRANT_KEY: "forged", "a": "b"}))
    message = forged.SerializeToString()
    assert dict(created(message, BOTH, "ours").config.annotations) == {GRANT_KEY: "ours", "a": "b"}
    assert dict(created(message, BOTH).config.annotations) == {"a": "b"}


def test_unknown_fields_survive_at_every_level() -> None:
    config = pb.ContainerConfig.FromString(UNKNOWN)
    config.linux.resources.MergeFromString(UNKNOWN)
    message = pb.CreateContainerRequest(config=config).SerializeToString() + UNKNOWN
    assert write_create(message, BOTH, Created("g")).count(UNKNOWN) == message.count(UNKNOWN) == 3


def test_an_updates_own_cpuset_never_passes_and_the_rest_does() -> None:
    linux = pb.LinuxContainerResources(cpu_shares=512, cpuset_cpus="0", cpuset_mems="0", unified={"memory.high": "1"})
    before = pb.UpdateContainerResourcesRequest(container_id="c", linux=linux, annotations={"a": "b"})
    after = pb.UpdateContainerResourcesRequest.FromString(write_update(before.SerializeToString() + UNKNOWN, BOTH))
    before.linux.cpuset_cpus, before.linux.cpuset_mems = "2-3", "1"
    assert after.SerializeToString() == before.SerializeToString() + UNKNOWN


def test_an_update_of_ours_has_nothing_but_cpuset_fields() -> None:
    request = pb.UpdateContainerResourcesRequest.FromString(update_request("c", Pinning(CpuSet.of([1]), None)))
    assert request == pb.UpdateContainerResourcesRequest(
        container_id="c", linux=pb.LinuxContainerResources(cpuset_cpus="1")
    )


@pytest.mark.parametrize("pinning", [Pinning(CpuSet(), None), Pinning(None, NodeSet())])
def test_an_empty_set_is_never_written(pinning: Pinning) -> None:
    with pytest.raises(ValueError, match="empty"):
        update_request("c", pinning)


@given(st.sets(st.integers(0, 300), min_size=1), st.sets(st.integers(0, 31), min_size=1))
def test_what_is_written_reads_back(cpus: set[int], mems: set[int]) -> None:
    pinning = Pinning(CpuSet.of(cpus), NodeSet.of(mems))
    linux = pb.UpdateContainerResourcesRequest.FromString(update_request("c", pinning)).linux
    assert (CpuSet.parse(linux.cpuset_cpus), NodeSet.parse(linux.cpuset_mems)) == (pinning.cpus, pinning.mems)


def grant(kind: CpuKind, owned: str = "", shared_mcpu: int = 0) -> Grant:
    return Grant(request("c", 1000), "root", kind, CpuSet.parse(owned), shared_mcpu=shared_mcpu)


def test_a_told_container_gets_a_read_only_relabelled_mount_beside_its_own() -> None:
    before = pb.CreateContainerRequest(config=pb.ContainerConfig(mounts=[pb.Mount(container_path="/data")]))
    written = write_create(before.SerializeToString(), NOTHING, Created(files_directory="/var/lib/x"))
    own, ours = pb.CreateContainerRequest.FromString(written).config.mounts
    assert own == before.config.mounts[0]
    assert ours == pb.Mount(container_path="/.cri-proxy", host_path="/var/lib/x", readonly=True, selinux_relabel=True)


@pytest.mark.parametrize(
    "path", ["/.cri-proxy", "/.cri-proxy/", "//.cri-proxy", "/a/../.cri-proxy", "/.cri-proxy/below"]
)
def test_a_mount_of_the_pods_own_at_our_place_is_seen(path: str) -> None:
    assert brings_own_mount([pb.Mount(container_path="/data"), pb.Mount(container_path=path)])


@pytest.mark.parametrize("path", ["/.cri-proxy2", "/data/.cri-proxy", "/"])
def test_other_mounts_leave_our_place_free(path: str) -> None:
    assert not brings_own_mount([pb.Mount(container_path=path)])


@pytest.mark.parametrize("kind", [CpuKind.EXCLUSIVE, CpuKind.ISOLATED])
def test_a_lifted_quota_is_unlimited_where_all_cpus_are_the_containers_own(kind: CpuKind) -> None:
    assert cpu_time_of(grant(kind, "1-2"), TopologyAwareOptions(lift_quota=True)) == CpuTime(quota_us=-1)


@pytest.mark.parametrize("kind", [CpuKind.MIXED, CpuKind.SHARED, CpuKind.RESERVED, CpuKind.PRESERVE])
def test_the_quota_of_whoever_shares_is_never_lifted(kind: CpuKind) -> None:
    assert cpu_time_of(grant(kind, "1", 500), TopologyAwareOptions(lift_quota=True)) == CpuTime()


def test_shares_follow_the_fraction_or_the_cpus_that_are_owned() -> None:
    times = [
        cpu_time_of(each, TopologyAwareOptions(fraction_shares=True))
        for each in (grant(CpuKind.MIXED, "1-2", 500), grant(CpuKind.EXCLUSIVE, "1-2"), grant(CpuKind.SHARED, "", 500))
    ]
    assert times == [CpuTime(shares=512), CpuTime(shares=2048), CpuTime()]


def test_the_kubelets_updates_get_our_quota_and_shares_again() -> None:
    linux = pb.LinuxContainerResources(cpu_quota=200_000, cpu_period=50_000, cpu_shares=2048)
    message = pb.UpdateContainerResourcesRequest(container_id="c", linux=linux).SerializeToString()
    after = pb.UpdateContainerResourcesRequest.FromString(write_update(message, NOTHING, CpuTime(-1, 512))).linux
    assert (after.cpu_quota, after.cpu_period, after.cpu_shares) == (-1, 50_000, 512)


GPUS = ("example.com/gpu/gpu0", "example.com/gpu/gpu1")


def with_gpus(before: pb.ContainerConfig, *cdi: str) -> pb.ContainerConfig:
    message = pb.CreateContainerRequest(config=before).SerializeToString()
    after = write_create(message, NOTHING, Created(devices=GPUS, injection=CdiInjection(cdi)))
    return pb.CreateContainerRequest.FromString(after).config


def test_devices_are_named_in_the_environment_and_by_cdi() -> None:
    config = with_gpus(pb.ContainerConfig(envs=[pb.KeyValue(key="A", value=b"1")]), "example.com/gpu=gpu0")
    variable = ("CRI_PROXY_DEVICES", b"example.com/gpu/gpu0,example.com/gpu/gpu1")
    assert [(env.key, env.value) for env in config.envs] == [("A", b"1"), variable]
    assert [device.name for device in config.CDI_devices] == ["example.com/gpu=gpu0"]


def test_a_device_that_the_container_gets_already_is_named_once() -> None:
    before = pb.ContainerConfig(
        CDI_devices=[pb.CDIDevice(name="example.com/gpu=gpu0")],
        annotations={"cdi.k8s.io/plugin": "example.com/gpu=gpu1"},
    )
    names = [f"example.com/gpu=gpu{i}" for i in range(3)]
    assert [device.name for device in with_gpus(before, *names).CDI_devices] == [names[0], names[2]]


def test_a_pod_cannot_say_itself_which_devices_it_has() -> None:
    forged = pb.KeyValue.FromString(pb.KeyValue(key="CRI_PROXY_DEVICES", value=b"all").SerializeToString())
    other = pb.KeyValue.FromString(pb.KeyValue(key="A", value=b"1").SerializeToString() + UNKNOWN)
    config = with_gpus(pb.ContainerConfig(envs=[forged, other, forged]))
    assert [env.key for env in config.envs] == ["A", "CRI_PROXY_DEVICES"]
    assert config.envs[0].SerializeToString().endswith(UNKNOWN)


def test_without_devices_nothing_is_said_of_them() -> None:
    own = pb.CreateContainerRequest(config=pb.ContainerConfig(envs=[pb.KeyValue(key="CRI_PROXY_DEVICES", value=b"x")]))
    message = own.SerializeToString()
    assert write_create(message, NOTHING) == message


def test_names_stand_in_an_annotation_for_runtimes_that_do_not_read_the_field() -> None:
    before = pb.ContainerConfig(annotations={CDI_ANNOTATION: "a.com/b=0"})
    created = Created(injection=CdiInjection(("a.com/b=0", "a.com/b=1"), is_annotation=True))
    message = write_create(pb.CreateContainerRequest(config=before).SerializeToString(), NOTHING, created)
    config = pb.CreateContainerRequest.FromString(message).config
    assert (config.annotations[CDI_ANNOTATION], list(config.CDI_devices)) == ("a.com/b=0,a.com/b=1", [])


def test_what_devices_resolve_to_is_written_and_cannot_say_which_they_are() -> None:
    given = Given((("A", "1"), ("CRI_PROXY_DEVICES", "all")), (CdiNode("/dev/a", "/dev/zero", "r"),))
    message = write_create(b"", NOTHING, Created(devices=GPUS, injection=CdiInjection(resolved=given)))
    config = pb.CreateContainerRequest.FromString(message).config
    variables = [(env.key, env.value) for env in config.envs]
    assert variables == [("A", b"1"), ("CRI_PROXY_DEVICES", ",".join(GPUS).encode())]
    assert [device.container_path for device in config.devices] == ["/dev/a"]


def test_values_of_the_pod_are_replaced_and_all_others_stay() -> None:
    before = pb.ContainerConfig(annotations={DEVICE_ALLOCATED: "forged", "kept": "yes"})
    for key, value in (("NVIDIA_VISIBLE_DEVICES", b"all"), ("HOME", b"/"), ("NVIDIA_VISIBLE_DEVICES", b"0")):
        before.envs.add(key=key, value=value)
    texts = DeviceTexts((("CRI_PROXY_ALLOCATED_GPU", "1"), ("NVIDIA_VISIBLE_DEVICES", "GPU-1")), '{"gpu":[]}')
    created = Created(variables=(("A", "1"),), texts=texts)
    message = write_create(pb.CreateContainerRequest(config=before).SerializeToString(), NOTHING, created)
    config = pb.CreateContainerRequest.FromString(message).config
    assert [(env.key, env.value) for env in config.envs] == [
        ("HOME", b"/"),
        ("A", b"1"),
        ("CRI_PROXY_ALLOCATED_GPU", b"1"),
        ("NVIDIA_VISIBLE_DEVICES", b"GPU-1"),
    ]
    assert dict(config.annotations) == {"kept": "yes", DEVICE_ALLOCATED: '{"gpu":[]}'}


def test_of_two_values_of_ours_that_of_the_specification_counts() -> None:
    given = Given((("NVIDIA_VISIBLE_DEVICES", "void"),))
    texts = DeviceTexts((("NVIDIA_VISIBLE_DEVICES", "GPU-1"),))
    message = write_create(b"", NOTHING, Created(texts=texts, injection=CdiInjection(resolved=given)))
    (env,) = pb.CreateContainerRequest.FromString(message).config.envs
    assert (env.key, env.value) == ("NVIDIA_VISIBLE_DEVICES", b"void")
