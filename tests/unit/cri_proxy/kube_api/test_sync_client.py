"""The client without an event loop, over a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import MERGE_PATCH, ApiRefused
from cri_proxy.kube_api.sync_client import BlockingClient
from tests.fakes.api_server import ApiServer
from tests.unit.cri_proxy.kube_api.reach import served

NODE = "/api/v1/nodes/n1"


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer()
    server.put(NODE, {"metadata": {"name": "n1"}})
    return server


@pytest.fixture
def client(server: ApiServer, tmp_path: Path) -> Iterator[BlockingClient]:
    with served(server, tmp_path) as access:
        yield BlockingClient(access)


def test_an_object_is_read_changed_and_missed(client: BlockingClient) -> None:
    assert client.get("/api/v1/nodes/n2") is None
    client.send("PATCH", NODE, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    found = client.get(NODE)
    assert found and found["metadata"]["labels"] == {"a": "b"}  # type: ignore[index]


def test_a_refusal_is_raised_and_so_is_a_server_that_is_away(server: ApiServer, tmp_path: Path) -> None:
    server.refuse = lambda method, path: 403
    with served(server, tmp_path) as access:
        client = BlockingClient(access)
        with pytest.raises(ApiRefused, match="403"):
            client.get(NODE)
    with pytest.raises(Unreachable):
        client.get(NODE)
