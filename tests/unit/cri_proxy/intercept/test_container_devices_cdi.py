"""How a container gets its CDI devices by what its runtime is; files are played by the test."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.cdi.conversion import Given
from cri_proxy.cri.cdi.edits import CdiNode
from cri_proxy.cri.cdi.resolve import ResolvedDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.file_workers import FilesFailed
from cri_proxy.state.decisions import DecisionRecord
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.scripted_cdi import ResolvedOf, ScriptedCdi
from tests.fakes.site import Site, opened

OWNS = guaranteed("c", 1000)
ASKS = {"cri-proxy.io/device-request": "example.com/gpu=1"}
GPU, NAME = "example.com/gpu/gpu0", "example.com/gpu=gpu0"
GIVEN = Given((("VENDOR", "1"),), (CdiNode("/dev/gpu0", "/dev/zero", "rw"),), notes=("mounted without nosuid: /x",))
HOOK = f"{NAME} (/etc/cdi/a.yaml) has the createContainer hook /bin/x, and no request to a runtime can name a hook"


class RuntimeSite(Site):
    """A site with one GPU, which a specification declares, in front of a containerd of this version."""

    def __init__(self, version: str, config: str = "{}", *, rules: Config | None = None) -> None:
        super().__init__(policy_with_devices(GPU), rules=rules)
        self.runtime.faults.rewrite("Version", lambda *_: containerd(version))
        self.runtime.faults.rewrite("Status", lambda *_: pb.StatusResponse(info={"config": config}).SerializeToString())
        self.resolved_of: ResolvedOf = one_resolved

    async def open(self, *args: object) -> None:
        await super().open()
        cdi = ScriptedCdi(all_declared, self.resolved_of)
        self.interceptor.use_reader(replace(self.interceptor._reader, cdi=cdi))

    def config(self, pod: RunningPod) -> pb.ContainerConfig:
        return self.runtime.node.containers[pod.container_id("c")].config

    def history(self, pod: RunningPod) -> list[str]:
        record = self.journal.records.get(self.row(pod.container_id("c")).key)
        assert isinstance(record, DecisionRecord)
        return [entry.text for entry in record.history if entry.what == "devices"]


def containerd(version: str) -> bytes:
    return pb.VersionResponse(runtime_name="containerd", runtime_version=version).SerializeToString()


async def all_declared(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names)


async def one_resolved(names: Sequence[str]) -> ResolvedDevices:
    return ResolvedDevices(tuple(names), GIVEN)


async def hooked(names: Sequence[str]) -> ResolvedDevices:
    return ResolvedDevices((), problem=HOOK)


async def hanging(names: Sequence[str]) -> ResolvedDevices:
    raise FilesFailed("CDI specifications", "no answer within 1 s")


async def test_a_runtime_that_ignores_names_gets_what_they_stand_for() -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        pod = await site.run("a", OWNS, **ASKS)
        config = site.config(pod)
        assert [device.host_path for device in config.devices] == ["/dev/zero"]
        assert [(env.key, env.value) for env in config.envs][-2:] == [
            ("VENDOR", b"1"),
            ("CRI_PROXY_DEVICES", GPU.encode()),
        ]
        assert (list(config.CDI_devices), dict(config.annotations).get("cdi.k8s.io/cri-proxy_devices")) == ([], None)
        assert site.history(pod) == [f"resolved from CDI by cri-proxy: {NAME}; mounted without nosuid: /x"]


@pytest.mark.parametrize(("version", "config"), [("1.7.2", '{"enableCDI": true}'), ("2.0.1", "{}")])
async def test_a_runtime_that_adds_devices_gets_their_names(version: str, config: str) -> None:
    async with opened(RuntimeSite(version, config)) as site:
        created = site.config(await site.run("a", OWNS, **ASKS))
        assert [device.name for device in created.CDI_devices] == [NAME]
        assert list(created.devices) == []


async def test_an_earlier_one_gets_them_in_an_annotation() -> None:
    async with opened(RuntimeSite("1.7.1", '{"enableCDI": true}')) as site:
        config = site.config(await site.run("a", OWNS, **ASKS))
        assert (config.annotations["cdi.k8s.io/cri-proxy_devices"], list(config.CDI_devices)) == (NAME, [])


@pytest.mark.parametrize(("choice", "names"), [("runtime", [NAME]), ("resolve", [])])
async def test_the_operators_choice_counts(choice: str, names: list[str]) -> None:
    version = {"runtime": "1.6.20", "resolve": "2.0.1"}[choice]
    async with opened(RuntimeSite(version, rules=Config(cdi=choice))) as site:  # type: ignore[arg-type]
        config = site.config(await site.run("a", OWNS, **ASKS))
        assert [device.name for device in config.CDI_devices] == names


@pytest.mark.parametrize(
    ("version", "choice", "remedy"),
    [
        ("1.6.20", "auto", "because containerd 1.6.20 ignores CDI names: update it to 2.0 or later"),
        ("2.0.1", "resolve", "because cdi is resolve: set cdi: auto, since containerd 2.0.1 adds CDI devices"),
    ],
)
async def test_what_cannot_be_written_is_refused_with_the_remedy_and_gives_all_back(
    version: str, choice: str, remedy: str
) -> None:
    site = RuntimeSite(version, rules=Config(cdi=choice))  # type: ignore[arg-type]
    site.resolved_of = hooked
    async with opened(site):
        with pytest.raises(CallFailed) as caught:
            await site.run("a", OWNS, **ASKS)
        assert f"{HOOK}; cri-proxy resolves CDI devices itself, {remedy}" in caught.value.message
        assert (caught.value.code, site.live()) == (9, [])
        assert list(site.node.context.ledger.active()) == []
        await site.node.settle()  # a pod whose create was rolled back in the store keeps nothing over a restart
        site.resolved_of = one_resolved
        await site.open()
        await site.run("b", OWNS, **ASKS)  # the device is free again


async def test_devices_of_the_inventory_come_the_same_way() -> None:
    site = RuntimeSite("1.6.20")
    site.policy = policy_with_devices(devices=two_pairs())
    async with opened(site):
        pod = await site.run("a", OWNS, **{"cri-proxy.io/device-resources": "nvidia.com/gpu=1"})
        config = site.config(pod)
        assert ([device.host_path for device in config.devices], list(config.CDI_devices)) == (["/dev/zero"], [])
        (said,) = site.history(pod)
        assert said.startswith("resolved from CDI by cri-proxy: ")


async def test_files_that_hang_leave_the_container_with_its_variable() -> None:
    site = RuntimeSite("1.6.20")
    site.resolved_of = hanging
    async with opened(site):
        pod = await site.run("a", OWNS, **ASKS)
        assert site.config(pod).envs[-1] == pb.KeyValue(key="CRI_PROXY_DEVICES", value=GPU.encode())
        assert list(site.config(pod).devices) == []
        assert site.history(pod) == ["not added by CDI: CDI specifications: no answer within 1 s"]
        assert "devices_missing" in site.log.warnings


async def create_with(site: RuntimeSite, *cdi: str) -> pb.ContainerConfig:
    """Create a container that asks for a GPU of ours; the kubelet's request names these CDI devices."""
    pod = await site.run("a", OWNS, **ASKS)
    await site.kubelet.stop(pod.container_id("c"))
    request = pb.CreateContainerRequest(pod_sandbox_id=pod.sandbox_id)
    request.config.CopyFrom(site.config(pod))
    del request.config.devices[:], request.config.CDI_devices[:]
    request.config.metadata.attempt = 1
    request.config.linux.resources.ClearField("cpuset_cpus")  # ours, as a static manager's would be
    request.config.CDI_devices.extend(pb.CDIDevice(name=name) for name in cdi)
    made = await site.relay.unary(
        "/runtime.v1.RuntimeService/CreateContainer", request.SerializeToString(), timeout_seconds=5
    )
    await site.node.settle()
    return site.runtime.node.containers[pb.CreateContainerResponse.FromString(made).container_id].config


async def test_devices_of_the_kubelet_pass_and_are_reported_where_they_are_ignored() -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        config = await create_with(site, "other.com/nic=0")
        assert [device.name for device in config.CDI_devices] == ["other.com/nic=0"]
        assert len(config.devices) == 1
        assert "without the CDI devices other.com/nic=0 of the kubelet" in site.node.warnings()[0]


async def test_a_runtime_that_was_replaced_is_asked_before_it_is_said_to_ignore_devices() -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        await site.node.runtime_cdi.look()
        site.runtime.faults.rewrite("Version", lambda *_: containerd("2.0.1"))
        site.runtime.restart()
        spec = PodSpec("a", (OWNS,))
        request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        request.config.CDI_devices.add(name="other.com/nic=0")
        await site.kubelet.create_as(request)
        assert "cdi_ignored" not in site.log.warnings


async def test_a_device_of_ours_that_the_kubelet_names_too_is_resolved_only_where_the_runtime_ignores_it() -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        assert len((await create_with(site, NAME)).devices) == 1
        assert site.node.warnings() == ()
    async with opened(RuntimeSite("2.0.1", rules=Config(cdi="resolve"))) as site:
        config = await create_with(site, NAME)
        assert (len(config.devices), [device.name for device in config.CDI_devices]) == (0, [NAME])


async def create_given(site: RuntimeSite, name: str, *cdi: str, **annotations: str) -> pb.ContainerConfig:
    """Create a container whose request by the kubelet has these CDI devices and annotations."""
    spec = PodSpec(name, (OWNS,))
    request = create_request(spec, OWNS, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
    request.config.CDI_devices.extend(pb.CDIDevice(name=each) for each in cdi)
    request.config.annotations.update(annotations)
    made = await site.kubelet.create_as(request)
    await site.node.settle()
    return site.runtime.node.containers[made].config


OF_PLUGIN = {"allocated.cri-proxy.io/gpu": "0"}


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu=GPU-0", "cri-proxy.io/gpu=0", "amd.com/gpu=0", "amd.com/gpu=amdgpu_xcp_1", "habana.ai/gaudi=0"],
)
async def test_devices_of_our_plugin_are_resolved_where_the_runtime_ignores_them(name: str) -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        config = await create_given(site, "a", name, **OF_PLUGIN)
        assert [device.host_path for device in config.devices] == ["/dev/zero"]
        assert (site.node.warnings(), "cdi_ignored" in site.log.warnings) == ((), False)
    async with opened(RuntimeSite("2.0.1")) as site:
        assert list((await create_given(site, "a", name, **OF_PLUGIN)).devices) == []


async def test_a_device_of_our_plugin_that_cannot_be_written_keeps_no_container_from_starting() -> None:
    """NVIDIA's runtime may add it by its variable."""
    site = RuntimeSite("1.6.20")
    site.resolved_of = hooked
    async with opened(site):
        config = await create_given(site, "a", "nvidia.com/gpu=0", **OF_PLUGIN)
        assert list(config.devices) == []
        (warning,) = site.node.warnings()
        assert "default/a/c was created without the CDI devices nvidia.com/gpu=0 of the kubelet" in warning
        assert {"cdi_ignored", "devices_missing"} <= set(site.log.warnings)


async def test_containers_without_their_devices_are_counted_after_a_restart_too() -> None:
    async with opened(RuntimeSite("1.6.20")) as site:
        for name in "ab":
            await create_given(site, name, "other.com/nic=0")
        await site.open()
        await site.node.runtime_cdi.look()
        assert site.node.warnings() == (
            "2 containers were created without CDI devices of the kubelet (default/a/c, default/b/c): "
            "containerd 1.6.20 ignores CDI names; update it to 2.0 or later",
        )
