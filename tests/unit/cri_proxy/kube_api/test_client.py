from pathlib import Path

import pytest

from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import ApiRefused
from tests.fakes.api_server import ApiServer, Scripted
from tests.unit.cri_proxy.kube_api.reach import NODE, client


async def refusal(server: ApiServer, account: Path, said: Scripted) -> ApiRefused:
    server.scripted = [said]
    with pytest.raises(ApiRefused) as error:
        await client(server, account).send("POST", NODE, {"kind": "x"})
    return error.value


async def test_an_object_is_returned_and_none_where_there_is_none(server: ApiServer, account: Path) -> None:
    api = client(server, account)
    assert await api.get(NODE) is None
    server.put(NODE, {"kind": "NodeResourceTopology"})
    found = await api.get(NODE)
    assert found is not None
    assert found["kind"] == "NodeResourceTopology"


async def test_a_refusal_has_the_servers_words(server: ApiServer, account: Path) -> None:
    error = await refusal(server, account, Scripted(403, "Forbidden", 'cannot create resource "x"'))
    assert str(error) == f'POST {NODE}: 403 Forbidden: cannot create resource "x"'


async def test_a_server_that_is_busy_says_how_long_to_wait(server: ApiServer, account: Path) -> None:
    busy = Scripted(429, "TooManyRequests", headers={"Retry-After": "7"})
    assert (await refusal(server, account, busy)).retry_seconds == 7.0


@pytest.mark.parametrize("wait", ["soon", "-1", "99999999"])
async def test_no_wait_that_it_names_is_beyond_bounds(server: ApiServer, account: Path, wait: str) -> None:
    error = await refusal(server, account, Scripted(503, headers={"Retry-After": wait}))
    assert 0.0 <= error.retry_seconds <= 300.0


async def test_a_path_that_the_server_does_not_have_is_no_missing_object(server: ApiServer, account: Path) -> None:
    """As where the CRD is not installed: the answer is text."""
    with pytest.raises(ApiRefused, match="404 Not Found"):
        await client(server, account).get("/apis/other.io/v1/things/n1")


async def test_an_answer_that_is_no_object_is_an_error(server: ApiServer, account: Path) -> None:
    error = await refusal(server, account, Scripted(200, raw=b"<html>"))
    assert "an answer that is no object" in str(error)


async def test_a_server_that_is_away_is_unreachable(server: ApiServer, account: Path) -> None:
    api = client(server, account)
    server.port = 1
    with pytest.raises(Unreachable, match=r"https://127.0.0.1:1: "):
        await client(server, account).get(NODE)
    assert await api.get(NODE) is None


async def test_a_name_that_is_none_reaches_no_other_path(server: ApiServer, account: Path) -> None:
    with pytest.raises(ApiRefused):
        await client(server, account).get("/apis/x/n1?dryRun=All\r\nHost: evil")
    assert server.requests[0].path == "/apis/x/n1%3FdryRun%3DAll%0D%0AHost%3A%20evil"
