import asyncio
import json
import ssl
from pathlib import Path

import pytest

from tests.fakes.http import free_address
from tests.fakes.scheduler import arguments, exchanged, node, pod
from tests.testbed.certificates import self_signed
from tests.unit.cri_proxy.daemon.scene import started


async def test_the_address_speaks_https_and_asks_for_a_token_where_that_is_wanted(tmp_path: Path) -> None:
    made, (host, port) = self_signed(tmp_path), free_address()
    (tmp_path / "tokens").write_text("0123456789abcdef")
    more = f"httpTLS: {{certificate: {made.certificate}, key: {made.key}, tokenFile: {tmp_path}/tokens}}\n"
    async with started(tmp_path, more=more, http=f"{host}:{port}"):
        context = ssl.create_default_context(cafile=made.certificate)
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
        request = "GET /api/v1/config HTTP/1.1\r\nHost: localhost\r\n"
        page = "GET /page/ask.js HTTP/1.1\r\nHost: localhost\r\n\r\n"  # which asks for it, and has nothing of the node
        writer.write(f"{request}Authorization: Bearer 0123456789abcdef\r\n\r\n{page}{request}\r\n".encode())
        answers = (await reader.read()).split(b"HTTP/1.1 ")[1:]
        writer.close()
        assert [answer[:3] for answer in answers] == [b"200", b"200", b"401"]


@pytest.mark.parametrize(("more", "status"), [("extender: true\n", 200), ("", 405)])
async def test_the_scheduler_is_answered_where_that_is_wanted(tmp_path: Path, more: str, status: int) -> None:
    address = free_address()
    async with started(tmp_path, more=more, http=f"{address[0]}:{address[1]}"):
        question = json.dumps(arguments(pod(2), [node("a", "v1.0t1.n0x2.v12")])).encode()
        assert (await exchanged(address, "POST", "/extender/prioritize", question))[0] == status


@pytest.mark.parametrize("more", ["", "extender: true"])
async def test_the_page_is_served_and_takes_manifests(tmp_path: Path, more: str) -> None:
    address = free_address()
    async with started(tmp_path, more=more, http=f"{address[0]}:{address[1]}"):
        status, page = await exchanged(address, "GET", "/")
        assert (status, page[:15]) == (200, b"<!doctype html>")
        status, answer = await exchanged(address, "POST", "/api/v1/fit/manifests", b"kind: Service")
        assert (status, "have no pods" in json.loads(answer)["problem"]) == (200, True)
