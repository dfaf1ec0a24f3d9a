from pathlib import Path

import pytest

from cri_proxy.kube_api.client import ApiRefused
from cri_proxy.rollout.cluster import ConfigMapName, RolloutCluster
from tests.fakes.api_server import ApiServer, Plain, Scripted
from tests.unit.cri_proxy.kube_api.reach import client

EVENTS = "/apis/events.k8s.io/v1/namespaces/ops/events"


def cluster(server: ApiServer, account: Path, node: str = "w1") -> RolloutCluster:
    return RolloutCluster(client(server, account), node, ConfigMapName("ops", "settings"))


def written(server: ApiServer) -> list[Plain]:
    return [value for path, value in server.objects.items() if path.startswith(EVENTS)]


async def test_a_cause_is_one_event_whichever_node_writes_it_and_another_is_another(
    server: ApiServer, account: Path
) -> None:
    told = [("w1", "ab", "STOP", "x"), ("w2", "ab", "STOP", "other words"), ("w1", "cd", "STOP", "y")]
    for node, digest, cause, note in (*told, ("w1", "ab", "WAIT", "z")):
        await cluster(server, account, node).tell_stopped(digest, cause, note, 1_000_000.0)
    assert [event["note"] for event in written(server)] == ["x", "y", "z"]
    assert written(server)[0]["eventTime"] == "1970-01-12T13:46:40.000000Z"
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ops", "name": "settings"}
    assert written(server)[0]["regarding"] == regarding


async def test_a_long_note_is_cut_to_what_the_api_server_takes(server: ApiServer, account: Path) -> None:
    await cluster(server, account).tell_stopped("ab", "STOP", "ä" * 2000, 0.0)
    (event,) = written(server)
    assert len(str(event["note"]).encode()) == 1024


async def test_what_the_server_refuses_otherwise_is_an_error(server: ApiServer, account: Path) -> None:
    server.scripted = [Scripted(403, "Forbidden")]
    with pytest.raises(ApiRefused, match="403"):
        await cluster(server, account).tell_stopped("ab", "STOP", "x", 0.0)


async def test_nodes_and_labels_are_asked_for(server: ApiServer, account: Path) -> None:
    server.put("/api/v1/nodes/w1", {"metadata": {"name": "w1", "labels": {"a": "b"}}})
    asked = cluster(server, account)
    assert await asked.labels() == {"a": "b"}
    assert [node.name for node in await asked.nodes("a=b")] == ["w1"]
    assert await asked.nodes("a=c") == ()
