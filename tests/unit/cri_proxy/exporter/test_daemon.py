from http import HTTPStatus
from pathlib import Path

import pytest

from cri_proxy.exporter.daemon import TOPOLOGY, AdminClient, DaemonNotReady
from cri_proxy.http.call import Unreachable
from cri_proxy.http.messages import JSON, Response, text_response
from cri_proxy.http.server import AdminServer
from tests.fakes.http import serving


async def test_an_answer_is_its_bytes(tmp_path: Path) -> None:
    server = AdminServer({TOPOLOGY: lambda query: Response(200, JSON, b"{}")})
    async with serving(tmp_path / "s", server):
        assert await AdminClient(tmp_path / "s").get(TOPOLOGY) == b"{}"
        assert await AdminClient(tmp_path / "s").object_at(TOPOLOGY) == {}


async def test_a_daemon_that_is_not_ready_says_why(tmp_path: Path) -> None:
    server = AdminServer({TOPOLOGY: lambda query: text_response(HTTPStatus.SERVICE_UNAVAILABLE, "not recovered")})
    async with serving(tmp_path / "s", server):
        with pytest.raises(DaemonNotReady, match="the daemon: not recovered"):
            await AdminClient(tmp_path / "s").get(TOPOLOGY)
        with pytest.raises(Unreachable, match="expected an object, got 503 not recovered"):
            await AdminClient(tmp_path / "s").object_at(TOPOLOGY)


async def test_no_daemon_is_named_by_its_socket(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=rf"the daemon at {tmp_path}/s: No such file"):
        await AdminClient(tmp_path / "s").get(TOPOLOGY)
