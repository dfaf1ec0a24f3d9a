"""HTTPS over a real socket, spoken to by Python's own client: certificates, tokens, their exchange, and strangers."""

import asyncio
import http.client
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cri_proxy.http.connection import Times
from cri_proxy.http.messages import text_response
from cri_proxy.http.server import AdminServer
from cri_proxy.http.tls import TlsFiles, TlsGuard
from tests.fakes.http import free_address
from tests.testbed.certificates import Certificate, self_signed
from tests.testbed.wait import until

TOKEN = "0123456789abcdef"
LARGE = "x" * 300_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@dataclass
class Site:
    """An open server with TLS, and what was said about its files."""

    address: tuple[str, int]
    files: TlsFiles
    problems: list[str] = field(default_factory=list)

    def get(self, path: str = "/healthz", *, token: str = "", ca: Path | None = None) -> tuple[int, Mapping[str, str]]:
        """Ask once, on a connection of its own, as 127.0.0.1, which the certificate names. Blocks."""
        context = ssl.create_default_context(cafile=ca or self.files.certificate)
        client = http.client.HTTPSConnection("127.0.0.1", context=context, timeout=10)
        plain = socket.create_connection(self.address, 10)
        client.sock = context.wrap_socket(plain, server_hostname="127.0.0.1")
        try:
            client.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = client.getresponse()
            return answer.status, {"body": answer.read().decode(), **{k.lower(): v for k, v in answer.getheaders()}}
        finally:
            client.close()

    async def ask(self, path: str = "/healthz", *, token: str = "", ca: Path | None = None) -> int:
        return (await asyncio.to_thread(self.get, path, token=token, ca=ca))[0]


@asynccontextmanager
async def secured(
    directory: Path, made: Certificate, tokens: str = "", *, times: Times | None = None
) -> AsyncIterator[Site]:
    files = TlsFiles(directory / "tls.crt", directory / "tls.key", directory / "tokens" if tokens else None)
    shutil.copy(made.certificate, files.certificate)
    shutil.copy(made.key, files.key)
    if files.tokens:
        files.tokens.write_text(tokens)
    host, port = free_address()
    site = Site((host, port), files)
    routes = {"/healthz": lambda query: text_response(200, "ok"), "/large": lambda query: text_response(200, LARGE)}
    guard = TlsGuard(files, site.problems.append, period_seconds=0.02)
    public = {"/": lambda query: text_response(200, "the page")}
    server = AdminServer(routes, guard=guard, times=times or Times(), public=public)
    assert await server.listen_tcp(f"{host}:{port}") is None
    try:
        async with asyncio.timeout(20):
            yield site
    finally:
        await server.close()


async def test_a_client_that_trusts_the_certificate_is_answered(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made) as site:
        assert await site.ask() == 200
        status, answer = await asyncio.to_thread(site.get, "/large")
        assert (status, answer["body"]) == (200, f"{LARGE}\n")


async def test_without_a_token_of_the_file_nothing_is_told(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made, f"{TOKEN}\nsecond-0123456789\n") as site:
        status, answer = await asyncio.to_thread(site.get)
        assert (status, answer["www-authenticate"]) == (401, "Bearer")
        assert TOKEN not in answer["body"]
        assert [await site.ask(token=given) for given in (TOKEN[:-1], f"{TOKEN}0", "second-0123456789", TOKEN)] == [
            401,
            401,
            200,
            200,
        ]
        assert await site.ask("/nowhere") == 401


async def test_what_tells_nothing_of_the_node_is_answered_without_a_token(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made, TOKEN) as site:
        assert [await site.ask("/"), await site.ask("/?path=/healthz"), await site.ask("//healthz")] == [200, 200, 401]
        assert await site.ask("/", token="a-wrong-token-000") == 200


async def test_new_files_count_from_the_next_connection_on(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made, TOKEN) as site:
        newer, renewed = "another-0123456789", self_signed(tmp_path)
        (tmp_path / "newer").write_text(newer)
        (tmp_path / "newer").rename(tmp_path / "tokens")

        async def is_answered() -> bool:
            return await site.ask(token=newer, ca=made.certificate) == 200

        await until("the new token counts", is_answered, seconds=10)
        assert await site.ask(token=TOKEN) == 401

        async def told(words: str) -> bool:
            return bool(site.problems) and (words in site.problems[-1] if words else not site.problems[-1])

        renewed.certificate.rename(site.files.certificate)
        await until("the pair is refused", lambda: told("the key is not that of the certificate"), seconds=10)
        assert await is_answered()  # with the former pair
        renewed.key.rename(site.files.key)
        await until("the pair is taken", lambda: told(""), seconds=10)
        assert await site.ask(token=newer) == 200


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tls.key", None, r"tls\.key: No such file"),
        ("tls.crt", None, r"tls\.crt: No such file"),
        ("tls.crt", "no PEM", "expected PEM"),
        ("tokens", "", "tokens: no token"),
        ("tokens", f"{TOKEN}\nshort", "tokens: token 2: expected at least 16"),
        ("tokens", "a" * 70_000, "larger than 65536 bytes"),
    ],
)
async def test_files_that_cannot_be_used_open_nothing(
    tmp_path: Path, made: Certificate, name: str, content: str | None, problem: str
) -> None:
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "tokens")
    shutil.copy(made.certificate, files.certificate)
    shutil.copy(made.key, files.key)
    (tmp_path / "tokens").write_text(TOKEN)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    host, port = free_address()
    server = AdminServer({}, guard=TlsGuard(files, print))
    said = await server.listen_tcp(f"{host}:{port}") or ""
    await server.close()
    assert server.addresses == ()
    assert said.startswith("httpTLS: ")
    assert "another address" not in said
    with pytest.raises(ValueError, match=problem) as refused:
        files.load()
    assert str(refused.value) in said
    assert "short" not in said


async def test_a_client_that_speaks_plain_http_is_told_so(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made) as site:
        reader, writer = await asyncio.open_connection(*site.address)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert b"400 Bad Request" in answer
        assert b"this address speaks HTTPS" in answer


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x00", b"\x16\x03\x01\x00\x04\xff\xff\xff\xff"])
async def test_strangers_that_say_nothing_or_nonsense_are_dropped(
    tmp_path: Path, made: Certificate, sent: bytes
) -> None:
    async with secured(tmp_path, made, times=Times(request_seconds=0.2)) as site:
        reader, writer = await asyncio.open_connection(*site.address)
        writer.write(sent)
        await reader.read()  # until it closes
        writer.close()
        assert await site.ask() == 200


async def test_a_connection_serves_several_requests_and_ends_in_order(tmp_path: Path, made: Certificate) -> None:
    async with secured(tmp_path, made) as site:

        def talk() -> list[bytes]:
            context = ssl.create_default_context(cafile=site.files.certificate)
            plain = socket.create_connection(site.address, 10)
            with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as client:
                request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                client.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(4096), b""))
            return answer.split(b"HTTP/1.1 ")[1:]

        assert [part[:3] for part in await asyncio.to_thread(talk)] == [b"200", b"200"]
