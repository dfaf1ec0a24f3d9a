from collections.abc import Coroutine, Sequence
from dataclasses import replace

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.cdi.variables import Variables
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest, pod_of
from cri_proxy.cri_client.pods import KubeletNode, PodSpec, create_request, guaranteed, sandbox_config
from cri_proxy.errors import UnreadableRequest
from cri_proxy.file_workers import FilesFailed
from cri_proxy.intercept.reader import Reader, message_of
from cri_proxy.kubelet.pod_resources import PodResources
from cri_proxy.node.decision_log.journal import Journal
from policies.base import DeviceLocality, QosClass
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.clock import ManualClock
from tests.fakes.scripted_cdi import ScriptedCdi
from tests.fakes.site import Silent, no_hints
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices
from tests.unit.cri_proxy.kubelet.service import pod as kubelet_pod

HINT = DeviceLocality("/dev/x", CpuSet.parse("1"), NodeSet.parse("0"))
READER = Reader(4 << 30, Config(), no_hints)


def message(*annotations: tuple[str, str]) -> pb.CreateContainerRequest:
    spec = PodSpec("web", (guaranteed("c", 2000),), annotations=annotations)
    return create_request(spec, spec.containers[0], "sandbox", node=KubeletNode(4 << 30))


async def one_hint(config: pb.ContainerConfig, told: ToldDevices) -> Sequence[DeviceLocality]:
    return (HINT, *(group.place for group in told.places))


def read(reader: Reader, request: pb.CreateContainerRequest) -> Coroutine[object, object, ReadRequest]:
    return reader.read_create(request, request.sandbox_config)


async def test_a_create_is_read_with_the_nodes_device_hints() -> None:
    found = await read(Reader(4 << 30, Config(), one_hint), message())
    assert (found.request.cpu_request_mcpu, found.request.localities, found.problems) == (2000, (HINT,), ())


async def test_an_annotation_that_is_not_understood_becomes_a_sentence() -> None:
    found = await read(READER, message(("cri-proxy.io/prefer-isolated-cpus", "perhaps")))
    assert ["prefer-isolated-cpus" in str(problem) for problem in found.problems] == [True]


async def test_only_the_operators_domains_count() -> None:
    reader = Reader(4 << 30, Config(annotation_domains=("example.com",)), no_hints)
    assert (await read(reader, message(("cri-proxy.io/prefer-isolated-cpus", "perhaps")))).problems == ()


def test_a_sandbox_is_read_as_its_pod() -> None:
    spec = PodSpec("web", (guaranteed("c", 2000),))
    pod = pod_of(sandbox_config(spec, KubeletNode(4 << 30)))
    assert (pod.uid, pod.name, pod.qos) == (spec.pod_uid, "web", QosClass.GUARANTEED)


async def test_an_update_changes_only_what_it_names() -> None:
    request = (await read(READER, message())).request
    assert READER.merge_update(request, pb.LinuxContainerResources()) == request
    merged = READER.merge_update(request, pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20))
    assert (merged.memory_limit_bytes, merged.cpu_request_mcpu) == (1 << 20, 2000)


async def places(*annotations: tuple[str, str]) -> list[str]:
    """Sources of the hints of a container with a device of the kubelet's and one of its own."""
    kubelet = KubeletService(kubelet_pod("web", {"c": [devices("example.com/nic", "eth1", nodes=(1,))]}))
    resources = PodResources(
        kubelet, ManualClock(), Journal(Silent(), ManualClock()), known=lambda: NodeSet.parse("0-1")
    )
    reader = replace(Reader(4 << 30, Config(), one_hint), pod_resources=resources)
    found = await read(reader, message(*annotations))
    return [hint.source for hint in found.request.localities]


async def test_what_the_kubelet_says_of_devices_counts_beside_their_paths() -> None:
    assert await places() == ["/dev/x", "podresapi:example.com/nic/eth1"]


async def test_annotations_choose_which_hints_count() -> None:
    assert await places(("cri-proxy.io/topologyhints", "pod-resources")) == ["podresapi:example.com/nic/eth1"]
    assert await places(("cri-proxy.io/deny.topologyhints", "[podresapi:example.com/nic]")) == ["/dev/x"]


def test_bytes_are_read_as_the_request_that_they_are() -> None:
    asked = pb.StopContainerRequest(container_id="c", timeout=5)
    assert message_of(pb.StopContainerRequest, asked.SerializeToString()) == asked


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x0a\x01\xff"], ids=["no tag", "cut off", "no UTF-8"])
def test_bytes_that_are_none_are_named_with_the_method(data: bytes) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        message_of(pb.StopContainerRequest, data)
    assert caught.value.method == "StopContainer"
    assert caught.value.problem


async def chosen(names: Sequence[str]) -> Variables:
    return tuple((f"DRA_CPUSET_{name.partition('=')[2]}", "0-1") for name in names)


async def hanging(names: Sequence[str]) -> Variables:
    raise FilesFailed("CDI specifications", "has not answered for 1 s")


def with_device() -> pb.CreateContainerRequest:
    request = message()
    request.config.CDI_devices.add(name="dra.k8s.io/cpu=a")
    return request


async def test_cpus_that_were_chosen_for_a_container_are_its_claim() -> None:
    found = (await read(replace(READER, cdi=ScriptedCdi(variables=chosen)), with_device())).request.claim
    assert found is not None
    assert (str(found.cpus), found.source) == ("0-1", "DRA_CPUSET_a")


async def test_the_operator_may_ignore_what_was_chosen() -> None:
    reader = replace(READER, cdi=ScriptedCdi(variables=chosen), config=Config(claims="ignore"))
    assert (await read(reader, with_device())).request.claim is None


async def test_a_container_without_cdi_devices_waits_for_no_file() -> None:
    assert (await read(replace(READER, cdi=ScriptedCdi(variables=hanging)), message())).missing == ()


async def test_where_the_specifications_hang_it_is_said_that_the_choice_is_not_known() -> None:
    found = await read(replace(READER, cdi=ScriptedCdi(variables=hanging)), with_device())
    assert found.request.claim is None
    assert found.missing[0].startswith("it is not known whether CPUs were chosen for it: CDI specifications")


def test_the_hints_of_a_pod_whose_cpus_others_chose_are_not_merged() -> None:
    config = parse_config("topologyManager: {policy: restricted, scope: pod}")
    reader = replace(READER, config=config)
    spec = PodSpec("web", (guaranteed("c", 2000),), annotations=((RESOURCE_STATUS, '{"cpuset": "1,5"}'),))
    chosen = sandbox_config(spec, node=KubeletNode(4 << 30))
    assert reader.read_pod(chosen) is None
    assert replace(reader, config=replace(config, claims="ignore")).read_pod(chosen) is not None
    del chosen.annotations[RESOURCE_STATUS]
    assert reader.read_pod(chosen) is not None
