"""What a whole daemon gives exporters and schedulers."""

import json
from functools import partial
from pathlib import Path

import pytest

from cri_proxy.clock import SystemClock
from cri_proxy.errors import CallFailed
from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.exporter.node_condition import NodeConditionPart
from cri_proxy.exporter.pod_events import PodEventsPart
from cri_proxy.exporter.topology import TopologyPart
from cri_proxy.kubelet.lister.socket import UnaryServer
from cri_proxy.kubelet.proto import podresources_v1_pb2 as podresources
from cri_proxy.runtime.client import RuntimeClient
from sysfs.cpuset import CpuSet
from tests.fakes.api_server import ApiServer
from tests.testbed.wait import until
from tests.unit.cri_proxy.daemon.scene import started, with_runtime
from tests.unit.cri_proxy.kube_api.reach import client
from tests.unit.cri_proxy.kubelet.service import KubeletService
from tests.unit.cri_proxy.kubelet.service import pod as listed_pod

LISTER = "podResourcesListen: unix://DIR/pods/kubelet.sock\nkubeletRoot: DIR/k\n"


async def test_exporters_find_owners(tmp_path: Path) -> None:
    kubelet, path = (
        KubeletService(listed_pod("web", {"c": []})),
        tmp_path / "k" / "pod-resources" / "kubelet.sock",
    )
    path.parent.mkdir(parents=True)
    of_kubelet = UnaryServer(partial(kubelet.unary, timeout_seconds=5), lambda error: None)
    await of_kubelet.start(path, path)
    async with started(tmp_path, more=LISTER.replace("DIR", str(tmp_path))) as scene:
        await with_runtime(scene)
        await scene.run_pod()
        lister = RuntimeClient(f"unix://{tmp_path}/pods/kubelet.sock")
        answer = await lister.unary("/v1.PodResourcesLister/List", b"", timeout_seconds=20)
        (pod_found,) = podresources.ListPodResourcesResponse.FromString(answer).pod_resources
        (container,) = json.loads((await scene.get("/api/v1/status"))[1])["containers"]
        assert str(CpuSet.of(pod_found.containers[0].cpu_ids)) == container["exclusive"]
        await lister.close()
        (tmp_path / "pods" / "kubelet.sock").unlink()
        assert await scene.readiness() == 503
    await of_kubelet.close()


async def test_a_socket_for_exporters_that_cannot_be_opened_keeps_no_container_from_starting(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("no directory")
    async with started(tmp_path, more=LISTER.replace("DIR", str(tmp_path))) as scene:
        await scene.server.start()
        await scene.run_pod()
        assert "pod resources" in (await scene.get("/readyz?verbose"))[1]
        assert "config_warning" in scene.log.warnings


async def test_the_object_for_schedulers_is_written_and_served(tmp_path: Path) -> None:
    async with started(tmp_path, more=f"nodeTopologyFile: {tmp_path}/node.json\n") as scene:
        assert (await scene.get("/api/v1/node-topology"))[0] == 503  # the runtime is not there yet
        await with_runtime(scene)
        await scene.run_pod()

        async def is_written() -> bool:
            status, text = await scene.get("/api/v1/node-topology")
            path = tmp_path / "node.json"
            return status == 200 and path.exists() and path.read_text() == text

        await until("the file has what is served", is_written, seconds=20)
        topology = json.loads((tmp_path / "node.json").read_text())
        said = {each["name"]: each["value"] for each in topology["attributes"]}
        assert (
            said["cri-proxy.io/config-digest"]
            == json.loads((await scene.get("/api/v1/status"))[1])["configuration"]["digest"]
        )


async def test_a_file_for_schedulers_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    async with started(tmp_path, more=f"nodeTopologyFile: {tmp_path}/absent/node.json\n") as scene:
        await with_runtime(scene)

        async def is_told() -> bool:
            return "nodeTopologyFile" in (await scene.get("/api/v1/status"))[1]

        await until("the status says so", is_told, seconds=20)
        assert await scene.readiness() == 200


async def test_the_exporter_brings_what_this_daemon_has_to_the_cluster(
    tmp_path: Path, server: ApiServer, account: Path
) -> None:
    async with started(tmp_path) as scene:
        await with_runtime(scene)
        await scene.run_pod()
        api, clock = client(server, account), SystemClock()
        await TopologyPart(AdminClient(scene.settings.admin_socket), api, clock, scene.log).step()
        (exported,) = server.objects.values()
        told = json.loads((await scene.get("/api/v1/node-topology"))[1])
        assert (exported["zones"], exported["attributes"]) == (told["zones"], told["attributes"])


async def test_a_pod_that_this_daemon_refuses_gets_an_event(tmp_path: Path, server: ApiServer, account: Path) -> None:
    async with started(tmp_path) as scene:
        await with_runtime(scene)
        with pytest.raises(CallFailed):
            for number in range(5):  # of 2 CPUs each, on 8
                await scene.run_pod(f"web-{number}")
        api, clock = client(server, account), SystemClock()
        await PodEventsPart(AdminClient(scene.settings.admin_socket), api, clock, scene.log).step()
        (event,) = server.objects.values()
        assert event["reason"] == "PlacementRefused"
        assert str(event["note"]).startswith("container c: ")


async def test_the_exporter_says_on_the_node_whether_this_daemon_decides(
    tmp_path: Path, server: ApiServer, account: Path
) -> None:
    async with started(tmp_path) as scene:
        path = f"/api/v1/nodes/{scene.settings.node_name}/status"
        server.put(path, {"kind": "Node", "status": {}})
        part = NodeConditionPart(AdminClient(scene.settings.admin_socket), client(server, account), SystemClock())

        async def told() -> list[tuple[str, str]]:
            await part.step()
            status = server.objects[path]["status"]
            assert isinstance(status, dict)
            return [(each["status"], each["reason"]) for each in status["conditions"]]

        assert await told() == [("False", "NotReady")]  # the runtime is not there yet
        await with_runtime(scene)
        assert await told() == [("True", "Ready")]
