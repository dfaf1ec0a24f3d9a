import asyncio
import os
import select
import socket
import stat
from http import HTTPStatus
from pathlib import Path

import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.http.connection import Times
from cri_proxy.http.limits import TURN_SECONDS
from cri_proxy.http.messages import HttpRequest, Query, Response, text_response
from cri_proxy.http.routes import build_routes
from cri_proxy.http.server import MAX_BODY_BYTES, AdminServer
from cri_proxy.node.status.model import StatusView
from cri_proxy.steps import Steps
from cri_proxy.tasks import Tasks
from tests.fakes.http import closed, exchange, fixed_server, serving
from tests.fakes.views import FixedDaemon
from tests.fakes.waiting import busy_for

LINE = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
SLOW = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def test_requests_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock"):
        answer = await exchange(tmp_path / "a.sock", LINE, b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", LINE)
        assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: h\r\n\r\n", b"405"),
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", b"431"),
        (b"HEAD /healthz HTTP/1.1\r\nHost: h\r\n\r\n", b"200"),
    ],
)
async def test_every_request_gets_an_answer(tmp_path: Path, request_bytes: bytes, status: bytes) -> None:
    async with serving(tmp_path / "a.sock"):
        assert (await exchange(tmp_path / "a.sock", request_bytes)).startswith(b"HTTP/1.1 " + status)


async def test_the_admin_socket_is_roots_alone(tmp_path: Path) -> None:
    async with serving(tmp_path / "run" / "a.sock"):
        assert stat.S_IMODE((tmp_path / "run" / "a.sock").stat().st_mode) == 0o600


async def test_a_stale_socket_is_replaced_and_ours_removed_at_the_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "a.sock"))

    async with serving(tmp_path / "a.sock"):
        assert (await exchange(tmp_path / "a.sock", LINE)).startswith(b"HTTP/1.1 200")
    assert list(tmp_path.iterdir()) == []


async def test_a_successors_socket_is_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(tmp_path / "b.sock"))
        async with serving(tmp_path / "a.sock"):
            os.rename(tmp_path / "b.sock", tmp_path / "a.sock")  # noqa: PTH104  # rename(2), as a successor does it
        assert (tmp_path / "a.sock").exists()


async def test_a_file_in_the_sockets_place_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "a.sock").write_text("precious")
    with pytest.raises(ConfigError, match=r"admin socket: .* not a socket"):
        await AdminServer({}).listen_unix(tmp_path / "a.sock")
    assert (tmp_path / "a.sock").read_text() == "precious"


async def test_tcp_serves_the_same_and_a_taken_port_is_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock") as server:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert "the port is taken; --http names another" in (await server.listen_tcp(f"127.0.0.1:{port}") or "")
        assert await server.listen_tcp(f"127.0.0.1:{port}") is None
        assert server.addresses == (("127.0.0.1", port),)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        await writer.wait_closed()


async def test_a_taken_port_is_ours_once_it_is_free(tmp_path: Path) -> None:
    opened = asyncio.Event()
    server = AdminServer({}, on_late_tcp=lambda address: opened.set(), retry_seconds=0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        assert await server.listen_tcp(f"127.0.0.1:{address[1]}")
        assert not server.addresses
    async with asyncio.timeout(20):
        await opened.wait()
    assert server.addresses == (address,)
    await server.close()


async def test_who_is_closed_does_not_try_for_the_port_any_more(tmp_path: Path) -> None:
    others, server = asyncio.all_tasks(), AdminServer({}, retry_seconds=0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await server.listen_tcp(f"127.0.0.1:{taken.getsockname()[1]}")
        await server.close()
    assert asyncio.all_tasks() == others


async def test_off_opens_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock") as server:
        assert await server.listen_tcp("off") is None
        assert server.addresses == ()


async def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock", fixed_server(times=Times(idle_seconds=0.3))):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "a.sock"))
            client.sendall(LINE)  # it is there before the server has looked at the connection
            reader, writer = await asyncio.open_unix_connection(sock=client)
            assert (await reader.read()).endswith(b"ok\n")
            await closed((reader, writer))


async def over_loopback(server: AdminServer, host: bytes) -> bytes:
    await server.listen_tcp("127.0.0.1:0")
    reader, writer = await asyncio.open_connection(*server.addresses[0])
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.split(b" ")[1]


@pytest.mark.parametrize(
    ("host", "status"), [(b"127.0.0.1", b"200"), (b"localhost:1", b"200"), (b"page.example", b"421")]
)
async def test_a_page_that_was_given_our_address_as_its_own_is_misdirected(
    tmp_path: Path, host: bytes, status: bytes
) -> None:
    async with serving(tmp_path / "a.sock") as server:
        assert await over_loopback(server, host) == status


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"get"])
async def test_nothing_but_reading_is_offered(tmp_path: Path, method: bytes) -> None:
    async with serving(tmp_path / "a.sock"):
        answer = await exchange(tmp_path / "a.sock", method + b" /api/v1/status HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 405")
        assert b"\r\nAllow: GET, HEAD\r\n" in answer


async def echo(request: HttpRequest) -> Response:
    return Response(HTTPStatus.OK, "text/plain", request.body)


def posted(body: bytes) -> bytes:
    return b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def test_a_post_is_taken_on_the_admin_socket_alone(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock", fixed_server({"/echo": echo})) as server:
        await server.listen_tcp("127.0.0.1:0")
        reader, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(posted(b"x"))
        assert b" 405 " in await reader.readline()
        writer.close()
        assert (await exchange(tmp_path / "a.sock", posted(b"x"))).endswith(b"\r\n\r\nx")


async def test_what_takes_a_post_is_not_to_be_got(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock", fixed_server({"/echo": echo})):
        answer = await exchange(tmp_path / "a.sock", b"GET /echo HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 405")
        assert b"\r\nAllow: POST\r\n" in answer


@pytest.mark.parametrize(
    ("size_bytes", "status"), [(MAX_BODY_BYTES, b"200"), (MAX_BODY_BYTES + 1, b"413"), (3 * MAX_BODY_BYTES, b"413")]
)
async def test_a_body_is_as_large_as_a_config_map_or_refused_and_the_client_learns_it(
    tmp_path: Path, size_bytes: int, status: bytes
) -> None:
    async with serving(tmp_path / "a.sock", fixed_server({"/echo": echo})):
        answer = await exchange(tmp_path / "a.sock", posted(bytes(size_bytes)))
        assert answer.startswith(b"HTTP/1.1 " + status)


async def connected(server: AdminServer, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    found = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*server.addresses[0])
        found.append((reader, writer))
        await answered(reader, writer)
    return found


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask and be answered; the connection stays open."""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert await reader.readline() == b"ok\n"


async def test_when_all_connections_are_idle_whoever_comes_takes_the_place_of_the_longest_idle(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock") as server:
        await server.listen_tcp("127.0.0.1:0")
        first, second, *others = await connected(server, 64)
        await answered(*first)  # so that the second is idle for longer
        (newcomer,) = await connected(server, 1)
        assert await second[0].read() == b""
        for each in (first, *others, newcomer):
            await answered(*each)
        await closed(first, second, *others, newcomer)


async def test_who_waits_for_an_answer_is_never_dropped_and_a_newcomer_is_told_that_there_is_no_room(
    tmp_path: Path,
) -> None:
    go_on, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(request: HttpRequest) -> Response:
        waiting.release()
        await go_on.wait()
        return text_response(HTTPStatus.OK, "late")

    async with serving(tmp_path / "a.sock", fixed_server({"/slow": slow})):
        asking = Tasks()
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await exchange(tmp_path / "a.sock", SLOW))

        for _ in range(64):
            asking.start(ask())
            await waiting.acquire()
        newcomer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
        assert (await newcomer[0].read()).startswith(b"HTTP/1.1 503")
        await closed(newcomer)
        go_on.set()
        await asking.join()
        assert [answer[-5:] for answer in answers] == [b"late\n"] * 64


async def test_clients_on_tcp_do_not_use_up_roots_connections(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock") as server:
        await server.listen_tcp("127.0.0.1:0")
        first, *others = await connected(server, 64)
        assert (await exchange(tmp_path / "a.sock", LINE)).startswith(b"HTTP/1.1 200")
        await answered(*first)  # nobody had to give way
        await closed(first, *others)


async def test_who_takes_none_of_an_answer_does_not_hold_the_connection(tmp_path: Path) -> None:
    def large(query: Query) -> Response:
        return text_response(HTTPStatus.OK, "x" * (8 << 20))

    server = AdminServer({"/large": large}, times=Times(write_seconds=0.05))
    await server.listen_unix(tmp_path / "a.sock")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "a.sock"))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        poller = select.poll()
        poller.register(client, 0)  # POLLHUP is reported unasked
        assert await asyncio.to_thread(poller.poll, 20_000)
    await server.close()


class Slow(FixedDaemon):
    """A daemon whose status takes many slices; ``seen`` says at each how many turns others have had since the first."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._others = 0

    def status_steps(self) -> Steps[StatusView]:
        for _ in range(100):
            self.seen.append(self._others)
            asyncio.get_running_loop().call_soon(self._note)
            busy_for(TURN_SECONDS)
            yield
        return (yield from super().status_steps())

    def _note(self) -> None:
        self._others += 1


async def test_a_long_status_leaves_the_loop_to_others_after_every_slice(tmp_path: Path) -> None:
    daemon = Slow()
    async with serving(tmp_path / "a.sock", AdminServer(build_routes(daemon))):
        answer = await exchange(tmp_path / "a.sock", b"GET /api/v1/status HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert daemon.seen == list(range(100))


async def test_a_client_that_asks_without_pause_leaves_the_loop_to_others(tmp_path: Path) -> None:
    async with serving(tmp_path / "a.sock"):
        turns_of_others = 0

        async def other() -> None:
            nonlocal turns_of_others
            while True:
                turns_of_others += 1
                await asyncio.sleep(0)

        others = Tasks()
        others.start(other())
        await exchange(tmp_path / "a.sock", *[LINE] * 200)
        await others.cancel()
        assert turns_of_others >= 200
