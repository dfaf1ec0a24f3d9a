import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest

from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.exporter.node_condition import BEAT_SECONDS, PATIENCE, ConditionText, NodeConditionPart, finding_of
from cri_proxy.http.call import Unreachable
from cri_proxy.http.messages import JSON, Query, Response
from cri_proxy.http.server import AdminServer
from cri_proxy.kube_api.client import ApiRefused
from cri_proxy.kube_api.nodes import list_nodes
from tests.fakes.api_server import ApiServer, Plain, Scripted
from tests.fakes.http import serving
from tests.fakes.site import InstantClock
from tests.unit.cri_proxy.kube_api.reach import client

NODE = "/api/v1/nodes/n1"
STATUS = f"{NODE}/status"
KUBELETS = {"type": "Ready", "status": "True"}


@dataclass
class Scene:
    """A daemon whose health a test sets, and a Node."""

    server: ApiServer
    account: Path
    socket: Path
    clock: InstantClock = field(default_factory=InstantClock)
    problems: list[str] = field(default_factory=list)
    rejected: str = ""
    digest: str = ""

    def routes(self) -> AdminServer:
        return AdminServer({"/readyz": self._health, "/api/v1/config-state": self._state})

    def _health(self, query: Query) -> Response:
        status = HTTPStatus.SERVICE_UNAVAILABLE if self.problems else HTTPStatus.OK
        return _json({"is_ready": not self.problems, "problems": self.problems}, status)

    def _state(self, query: Query) -> Response:
        digest = {"rejected_digest" if self.rejected else "digest": self.digest}
        return _json({"node": "n1", "rejected": self.rejected, **digest})

    def part(self, node: str = "") -> NodeConditionPart:
        return NodeConditionPart(AdminClient(self.socket), client(self.server, self.account), self.clock, node)

    def condition(self) -> Plain:
        status = self.server.objects[STATUS]["status"]
        assert isinstance(status, dict)
        (found,) = [each for each in status["conditions"] if each["type"] == "CriProxyReady"]
        assert isinstance(found, dict)
        return found

    def patches(self) -> int:
        return len([each for each in self.server.requests if each.method == "PATCH"])


def _json(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, JSON, json.dumps(value).encode())


@pytest.fixture
async def scene(server: ApiServer, account: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(server, account, tmp_path / "admin.sock")
    server.put(STATUS, {"kind": "Node", "status": {"conditions": [dict(KUBELETS)]}})
    async with serving(made.socket, made.routes()):
        yield made


async def test_a_node_that_decides_is_ready_and_the_conditions_of_others_stay(scene: Scene) -> None:
    await scene.part().step()
    assert scene.condition() == {
        "type": "CriProxyReady",
        "status": "True",
        "reason": "Ready",
        "message": "containers are placed by the configuration in force",
        "lastHeartbeatTime": "1970-01-12T13:46:40Z",
        "lastTransitionTime": "1970-01-12T13:46:40Z",
    }
    status = scene.server.objects[STATUS]["status"]
    assert isinstance(status, dict)
    assert KUBELETS in status["conditions"]


async def test_it_is_written_when_it_changes_and_now_and_then(scene: Scene) -> None:
    part = scene.part()
    await part.step()
    await part.step()
    assert scene.patches() == 1
    await scene.clock.sleep(BEAT_SECONDS)
    await part.step()
    assert scene.patches() == 2
    condition = scene.condition()
    assert condition["lastHeartbeatTime"] > condition["lastTransitionTime"]


async def test_what_degrades_the_daemon_is_the_message(scene: Scene) -> None:
    part = scene.part()
    await part.step()
    await scene.clock.sleep(60)
    scene.problems = ["the runtime is away: x", "the store fails: y"]
    await part.step()
    condition = scene.condition()
    assert (condition["status"], condition["reason"]) == ("False", "NotReady")
    assert condition["message"] == "the runtime is away: x; the store fails: y"
    assert condition["lastTransitionTime"] == "1970-01-12T13:47:40Z"


async def test_a_rejected_configuration_is_a_reason(scene: Scene) -> None:
    scene.rejected = "cri-proxy.yaml:3: polcy: unknown option"
    await scene.part().step()
    condition = scene.condition()
    assert (condition["status"], condition["reason"]) == ("False", "ConfigurationRejected")
    assert condition["message"] == f"is rejected: {scene.rejected}"


@pytest.mark.parametrize("rejected", ["", "cri-proxy.yaml:3: polcy: unknown option"])
async def test_the_message_begins_with_the_digest_that_a_rollout_looks_for(scene: Scene, rejected: str) -> None:
    scene.rejected, scene.digest = rejected, "5" * 64
    await scene.part().step()
    scene.server.put(NODE, {**scene.server.objects[STATUS], "metadata": {"name": "n1"}})
    (node,) = await list_nodes(client(scene.server, scene.account), "")
    assert node.reported is not None
    assert (node.reported.is_ready, node.reported.digest) == (not rejected, "5" * 64)
    assert rejected in node.reported.message


async def test_an_exporter_that_starts_again_keeps_since_when_it_is_so(scene: Scene) -> None:
    await scene.part().step()
    since = scene.condition()["lastTransitionTime"]
    await scene.clock.sleep(900)
    await scene.part().step()
    assert scene.condition()["lastTransitionTime"] == since


async def test_a_write_that_fails_is_made_at_the_next_step(scene: Scene) -> None:
    part = scene.part()
    await part.step()
    scene.problems = ["x"]
    scene.server.scripted = [Scripted(500)]
    with pytest.raises(ApiRefused):
        await part.step()
    await part.step()
    assert scene.condition()["status"] == "False"


async def test_a_daemon_that_is_away_for_a_moment_is_not_reported(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    scene = Scene(server, account, tmp_path / "admin.sock")
    server.put(STATUS, {"kind": "Node", "status": {}})
    part = scene.part()
    async with serving(scene.socket, scene.routes()):
        await part.step()
    for _ in range(PATIENCE - 1):
        await part.step()
        assert scene.condition()["reason"] == "Ready"
    await part.step()
    assert scene.condition()["reason"] == "DaemonAway"
    async with serving(scene.socket, scene.routes()):
        await part.step()
    assert scene.condition()["reason"] == "Ready"


async def test_a_daemon_that_was_never_there_is_told_of_where_the_node_is_named(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    scene = Scene(server, account, tmp_path / "admin.sock")
    server.put(STATUS, {"kind": "Node", "status": {}})
    named, unnamed = scene.part("n1"), scene.part()
    for attempt in range(PATIENCE):
        with pytest.raises(Unreachable):
            await unnamed.step()
        if attempt < PATIENCE - 1:
            with pytest.raises(Unreachable):
                await named.step()
    await named.step()
    assert scene.condition()["reason"] == "DaemonAway"


async def test_a_node_that_does_not_exist_is_an_error_with_the_option(scene: Scene) -> None:
    del scene.server.objects[STATUS]
    with pytest.raises(ApiRefused, match="no Node 'n1': --node-name names another"):
        await scene.part().step()


def test_a_long_message_is_cut() -> None:
    found = finding_of({"is_ready": False, "problems": ["ä" * 2000]}, {})
    assert len(found.message.encode()) <= 1024
    assert finding_of({"is_ready": False}, {}) == ConditionText(False, "NotReady", "it does not decide")
