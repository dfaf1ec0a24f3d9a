"""The client without an event loop, over a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import MERGE_PATCH, ApiRefused
from cri_proxy.kube_api.sync_client import BlockingClient
from tests.fakes.kube_api import Objects, served

NODE = "/api/v1/nodes/n1"


@pytest.fixture
def objects() -> Objects:
    objects = Objects()
    objects.put(NODE, {"metadata": {"name": "n1"}})
    return objects


@pytest.fixture
def client(objects: Objects, tmp_path: Path) -> Iterator[BlockingClient]:
    with served(objects, tmp_path) as access:
        yield BlockingClient(access)


def test_an_object_is_read_changed_and_missed(client: BlockingClient) -> None:
    assert client.get("/api/v1/nodes/n2") is None
    client.send("PATCH", NODE, {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    found = client.get(NODE)
    assert found and found["metadata"]["labels"] == {"a": "b"}  # type: ignore[index]


def test_a_refusal_is_raised_and_so_is_a_server_that_is_away(objects: Objects, tmp_path: Path) -> None:
    objects.refuse = lambda method, path: 403
    with served(objects, tmp_path) as access:
        client = BlockingClient(access)
        with pytest.raises(ApiRefused, match="403"):
            client.get(NODE)
    with pytest.raises(Unreachable):
        client.get(NODE)
