from pathlib import Path

import pytest

from cri_proxy.errors import CriProxyError
from cri_proxy.kube_api.nodes import ListedNode, ReportedState, labels_of, list_nodes, nodes_in_list
from tests.fakes.api_server import ApiServer, Plain
from tests.unit.cri_proxy.kube_api.reach import client

READY: Plain = {"type": "Ready", "status": "True"}
OURS: Plain = {"type": "CriProxyReady", "status": "False", "reason": "NotReady", "message": "x"}


async def test_the_nodes_of_a_label_come_by_name_with_what_is_reported(server: ApiServer, account: Path) -> None:
    for name, pool in (("w2", "gpu"), ("w1", "gpu"), ("w3", "web")):
        status: Plain = {"conditions": [READY, OURS], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
        server.put(f"/api/v1/nodes/{name}", {"metadata": {"name": name, "labels": {"pool": pool}}, "status": status})
    found = await list_nodes(client(server, account), "pool=gpu", from_cache=True)
    assert [node.name for node in found] == ["w1", "w2"]
    reported = ReportedState(False, "NotReady", "x")
    assert found[0] == ListedNode("w1", {"pool": "gpu"}, (("InternalIP", "10.0.0.1"),), reported)


async def test_labels_are_asked_for_without_the_rest_of_the_node(server: ApiServer, account: Path) -> None:
    api = client(server, account)
    server.put("/api/v1/nodes/w1", {"metadata": {"name": "w1", "labels": {"a": "b"}}})
    assert await labels_of(api, "w1") == {"a": "b"}
    asked = server.requests[-1]
    assert "as=PartialObjectMetadata" in asked.headers["accept"]
    assert asked.path == "/api/v1/nodes/w1?resourceVersion=0"  # etcd is not read for it
    with pytest.raises(CriProxyError, match="knows no Node 'w2'"):
        await labels_of(api, "w2")


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (f"sha256:{'a' * 64} is in force", "a" * 64),
        (f"x sha256:{'a' * 64} ", ""),
        (f"sha256:{'a' * 63} x", ""),
        ("", ""),
    ],
)
def test_a_digest_counts_at_the_beginning_of_the_message_alone(message: str, digest: str) -> None:
    assert ReportedState(True, "Ready", message).digest == digest


@pytest.mark.parametrize("plain", [{}, {"items": {}}, {"kind": "Pod"}, {"items": [[]]}, {"items": [{"metadata": 1}]}])
def test_what_is_no_list_of_nodes_is_an_error(plain: Plain) -> None:
    with pytest.raises(CriProxyError, match="expected"):
        nodes_in_list(plain)


def test_a_node_of_odd_members_is_one_without_them() -> None:
    odd: Plain = {"metadata": {"name": "w1", "labels": []}, "status": {"addresses": {}, "conditions": [1]}}
    assert nodes_in_list({"items": [odd]}) == (ListedNode("w1"),)
