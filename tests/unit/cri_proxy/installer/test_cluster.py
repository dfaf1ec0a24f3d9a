"""What the API server has of a Node, over a real socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.errors import CriProxyError
from cri_proxy.installer.cluster import ClusterNode, NodeOfCluster
from cri_proxy.kube_api.sync_client import BlockingClient
from tests.fakes.api_server import LEASES, ApiServer
from tests.unit.cri_proxy.kube_api.reach import served

NODE = "/api/v1/nodes/n1"


def node(status: str = "True", label: str = "install") -> dict[str, Any]:
    """A Node with its label and its condition."""
    ready = {"type": "Ready", "status": status, "message": "as the kubelet says"}
    labels = {"cri-proxy.io/node": label} if label else {}
    return {"metadata": {"name": "n1", "labels": labels}, "status": {"conditions": [{"type": "DiskPressure"}, ready]}}


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Iterator[NodeOfCluster]:
    with served(server, tmp_path) as account:
        yield NodeOfCluster(BlockingClient(account), "n1")


def test_its_label_its_readiness_and_its_heartbeat(cluster: NodeOfCluster, server: ApiServer) -> None:
    server.put(NODE, node())
    server.put(f"{LEASES.format('kube-node-lease')}/n1", {"spec": {"renewTime": "t1"}})
    assert cluster.state() == ClusterNode("install", True, "", "t1")


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_one_that_is_not_ready_says_why(cluster: NodeOfCluster, server: ApiServer, status: str) -> None:
    server.put(NODE, node(status, ""))
    assert cluster.state() == ClusterNode("", False, "as the kubelet says", "")


def test_a_new_node_has_no_condition_yet(cluster: NodeOfCluster, server: ApiServer) -> None:
    server.put(NODE, {"metadata": {"name": "n1"}})
    assert cluster.state() == ClusterNode("", False, "it has no such condition", "")


def test_a_node_that_is_missing_or_none_is_an_error(cluster: NodeOfCluster, server: ApiServer) -> None:
    with pytest.raises(CriProxyError, match="no such Node"):
        cluster.state()
    server.objects[NODE] = {"metadata": {"labels": []}, "status": {"conditions": [1]}}
    with pytest.raises(CriProxyError, match="no Node"):
        cluster.state()
