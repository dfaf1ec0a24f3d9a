"""The client over a real socket with TLS: objects, refusals, a server that is away or another one."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.kube_api.account import Account
from cri_proxy.kube_api.client import ApiClient, ApiRefused, ApiUnreachable
from tests.fakes.kube_api import Objects, have_certificate, served

NODE = "/api/v1/nodes/n1"


@pytest.fixture
def objects() -> Objects:
    objects = Objects()
    objects.put(NODE, {"metadata": {"name": "n1"}})
    return objects


@pytest.fixture
def account(objects: Objects, tmp_path: Path) -> Iterator[Account]:
    with served(objects, tmp_path) as account:
        yield account


def test_an_object_is_found_or_is_not_there(account: Account) -> None:
    client = ApiClient(account)
    assert client.get(NODE)["metadata"]["name"] == "n1"
    assert client.find("/api/v1/nodes/n2") is None


def test_a_refusal_has_the_words_of_the_server(account: Account, objects: Objects) -> None:
    objects.refuse = lambda method, path: 403
    with pytest.raises(ApiRefused, match="GET /api/v1/nodes/n1: the API server answers 403: refused by the test"):
        ApiClient(account).find(NODE)


def test_a_wrong_token_is_refused(account: Account) -> None:
    (account.directory / "token").write_text("another")
    with pytest.raises(ApiRefused, match="401: Unauthorized"):
        ApiClient(account).get(NODE)


def test_a_server_with_another_certificate_gets_no_token(account: Account, objects: Objects, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    have_certificate(other, "two")
    (other / "token").write_text((account.directory / "token").read_text())
    with pytest.raises(ApiUnreachable, match="certificate verify failed"):
        ApiClient(replace(account, directory=other)).get(NODE)
    assert objects.asked == []


def test_a_server_that_is_away_or_silent_is_an_error(account: Account) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ApiUnreachable, match="timed out"):
            ApiClient(replace(account, port=port), seconds=0.2).get(NODE)
    with pytest.raises(ApiUnreachable, match="does not answer"):
        ApiClient(replace(account, port=port)).get(NODE)
