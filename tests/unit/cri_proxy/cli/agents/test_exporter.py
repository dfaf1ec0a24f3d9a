"""The exporter command, as a process of its own, between a daemon and an API server on real sockets."""

import asyncio
import json
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from cri_proxy.cli.main import run_command
from cri_proxy.clock import SystemClock
from cri_proxy.exporter.daemon import TOPOLOGY
from cri_proxy.http.messages import JSON, Response
from cri_proxy.http.routes import incidents_route
from cri_proxy.http.server import AdminServer
from cri_proxy.node.decision_log.incidents import IncidentKind, Incidents
from tests.fakes.api_server import ApiServer, api_server
from tests.fakes.grants import request
from tests.fakes.http import serving
from tests.testbed.certificates import Certificate, self_signed
from tests.testbed.daemon import program
from tests.testbed.wait import until

OBJECT: Mapping[str, object] = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "n1", "annotations": {}},
    "zones": [],
}
NODE = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1"
SECONDS = 20


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificates"))


def kubeconfig(directory: Path, certificate: Certificate, port: int) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate.certificate)}
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def daemon() -> AdminServer:
    incidents = Incidents(SystemClock())
    incidents.add(IncidentKind.REFUSED, request("c", 1000), "no room")
    return AdminServer(
        {
            TOPOLOGY: lambda query: Response(200, JSON, json.dumps(OBJECT).encode()),
            "/api/v1/incidents": incidents_route(incidents, "n1"),
        }
    )


@asynccontextmanager
async def running(directory: Path, config: Path, *words: str) -> AsyncIterator[Process]:
    options = ("--admin", f"unix://{directory}/admin.sock", "--kubeconfig", str(config), *words)
    child = await asyncio.create_subprocess_exec(*program(), "exporter", *options, stderr=asyncio.subprocess.PIPE)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def has_object(server: ApiServer) -> None:
    async def is_there() -> bool:
        return NODE in server.objects

    await until("the API server has the object", is_there, seconds=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_exports_until_it_is_told_to_end(
    tmp_path: Path, certificate: Certificate, number: signal.Signals
) -> None:
    with api_server(certificate) as server:
        config = kubeconfig(tmp_path, certificate, server.port)
        async with serving(tmp_path / "admin.sock", daemon()), running(tmp_path, config) as child:
            await has_object(server)
            child.send_signal(number)
            assert await asyncio.wait_for(child.wait(), SECONDS) == 0


async def test_a_server_that_comes_back_is_told(tmp_path: Path, certificate: Certificate) -> None:
    server = ApiServer()
    with api_server(certificate, server):
        config = kubeconfig(tmp_path, certificate, server.port)
    async with serving(tmp_path / "admin.sock", daemon()), running(tmp_path, config) as child:
        assert child.stderr is not None
        assert json.loads(await child.stderr.readline())["event"] == "not_exported"
        with api_server(certificate, server):
            await has_object(server)


async def test_once_ends_with_0_when_the_cluster_has_it(tmp_path: Path, certificate: Certificate) -> None:
    with api_server(certificate) as server:
        config = kubeconfig(tmp_path, certificate, server.port)
        async with serving(tmp_path / "admin.sock", daemon()), running(tmp_path, config, "--once") as child:
            assert await asyncio.wait_for(child.wait(), SECONDS) == 0
    assert [path.rsplit("/", 2)[-2] for path in server.objects] == ["noderesourcetopologies", "events"]


@pytest.mark.parametrize(("option", "kind"), [("--no-events", "noderesourcetopologies"), ("--no-topology", "events")])
async def test_each_part_can_be_left_out(tmp_path: Path, certificate: Certificate, option: str, kind: str) -> None:
    with api_server(certificate) as server:
        config = kubeconfig(tmp_path, certificate, server.port)
        async with serving(tmp_path / "admin.sock", daemon()), running(tmp_path, config, "--once", option) as child:
            assert await asyncio.wait_for(child.wait(), SECONDS) == 0
    assert [path.rsplit("/", 2)[-2] for path in server.objects] == [kind]


async def test_once_ends_with_1_and_the_reason_when_it_has_not(tmp_path: Path, certificate: Certificate) -> None:
    with api_server(certificate) as server:
        async with running(tmp_path, kubeconfig(tmp_path, certificate, server.port), "--once") as child:
            _, text = await asyncio.wait_for(child.communicate(), SECONDS)
    assert child.returncode == 1
    reasons = {json.loads(line)["what"]: json.loads(line)["reason"] for line in text.splitlines()}
    assert reasons.keys() == {"node topology", "events"}
    assert reasons["events"] == f"the daemon at {tmp_path}/admin.sock: No such file or directory"


def test_outside_of_a_pod_it_asks_for_a_kubeconfig(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert run_command(["exporter", "--once"]) == 2
    assert "--kubeconfig names a file" in capsys.readouterr().err


def test_nothing_to_do_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, self_signed(tmp_path), 1)
    assert run_command(["exporter", "--kubeconfig", str(config), "--no-events", "--no-topology"]) == 2
    assert "leave nothing to do" in capsys.readouterr().err
