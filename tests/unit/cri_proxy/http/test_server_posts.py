"""POST over TCP, which a server offers to its clients there with limits of its own."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import pytest

from cri_proxy.http.limits import TURN_SECONDS
from cri_proxy.http.messages import TEXT, HttpRequest, Response
from cri_proxy.http.server import AdminServer, Posts
from cri_proxy.steps import Steps
from cri_proxy.tasks import Tasks
from tests.fakes.waiting import busy_for

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


class Echo:
    """Answers with the body once it may; ``most_seen`` is how many requests it had at once."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)
        self.present = self.most_seen = 0

    async def answer(self, request: HttpRequest) -> Response:
        self.present += 1
        self.most_seen = max(self.most_seen, self.present)
        self.arrived.release()
        await self.may_answer.wait()
        self.present -= 1
        return Response(200, TEXT, request.body)


@asynccontextmanager
async def offering(echo: Echo, *, most_body_bytes: int = 100, most_at_once: int = 2) -> AsyncIterator[tuple[str, int]]:
    server = AdminServer({}, tcp_posts=Posts({"/echo": echo.answer}, most_body_bytes, most_at_once, shares_loop=False))
    assert await server.open_tcp("127.0.0.1:0") == ""
    try:
        async with asyncio.timeout(20):
            yield server.addresses[0]
    finally:
        await server.close()


async def exchanged(address: tuple[str, int], sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.fixture
def echo() -> Echo:
    echo = Echo()
    echo.may_answer.set()
    return echo


async def test_what_is_posted_is_answered(echo: Echo) -> None:
    async with offering(echo) as address:
        answer = await exchanged(address, HEAD % 5 + b"hello")
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD % 101 + b"x" * 101, b"413"),
        (HEAD % 10_000_000_000, b"413"),
        (HEAD.replace(b"localhost", b"page.example") % 0, b"421"),
        (HEAD.replace(b"POST", b"GET") % 0, b"405"),
        (HEAD.replace(b"/echo", b"/other") % 0, b"405"),
    ],
)
async def test_what_is_not_offered_is_refused(echo: Echo, sent: bytes, status: bytes) -> None:
    async with offering(echo) as address:
        assert (await exchanged(address, sent)).startswith(b"HTTP/1.1 " + status)
    assert echo.most_seen == 0


async def test_a_body_without_a_length_is_counted_as_it_comes(echo: Echo) -> None:
    chunked = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with offering(echo) as address:
        assert (await exchanged(address, chunked + b"60\r\n" + b"x" * 96 + b"\r\n0\r\n\r\n")).endswith(b"x" * 96)
        assert (await exchanged(address, chunked + b"70\r\n" + b"x" * 112 + b"\r\n")).startswith(b"HTTP/1.1 413")


async def test_an_answer_can_see_that_its_client_has_left() -> None:
    begun, seen = asyncio.Event(), asyncio.Event()

    async def answer(request: HttpRequest) -> Response:
        assert not request.is_abandoned()
        begun.set()
        while not request.is_abandoned():  # noqa: ASYNC110 - polled, as ``fit`` does
            await asyncio.sleep(0)
        seen.set()
        return Response(200, TEXT, b"")

    server = AdminServer({}, tcp_posts=Posts({"/echo": answer}, shares_loop=False))
    assert await server.open_tcp("127.0.0.1:0") == ""
    async with asyncio.timeout(20):
        _, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(HEAD % 2 + b"hi")
        await begun.wait()
        writer.close()
        await seen.wait()
    await server.close()


async def test_an_answer_in_steps_leaves_the_loop_to_others_between_them() -> None:
    passes: list[int] = []

    def steps() -> Steps[Response]:
        for number in range(5):
            asyncio.get_running_loop().call_soon(passes.append, number)
            busy_for(TURN_SECONDS)
            yield
            assert passes[-1] == number
        return Response(200, TEXT, b"whole")

    async def answer(request: HttpRequest) -> Steps[Response]:
        return steps()

    server = AdminServer({}, tcp_posts=Posts({"/echo": answer}))
    assert await server.open_tcp("127.0.0.1:0") == ""
    async with asyncio.timeout(20):
        assert (await exchanged(server.addresses[0], HEAD % 0)).endswith(b"\r\n\r\nwhole")
    await server.close()


async def test_as_many_are_answered_at_once_as_may_be_and_the_others_after_them() -> None:
    echo = Echo()
    async with offering(echo, most_at_once=2) as address:
        asked = asyncio.gather(*(exchanged(address, HEAD % 1 + b"x") for _ in range(5)))
        await echo.arrived.acquire()
        await echo.arrived.acquire()
        echo.may_answer.set()
        assert [answer.startswith(b"HTTP/1.1 200") for answer in await asked] == [True] * 5
        assert echo.most_seen == 2


async def begun(address: tuple[str, int], body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request of 100 bytes of which these have been sent."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HEAD % 100 + body)
    await writer.drain()
    return reader, writer


async def test_clients_that_send_slowly_keep_nobody_from_an_answer(echo: Echo) -> None:
    async with offering(echo, most_at_once=2) as address:
        slow = [await begun(address, b"x") for _ in range(3)]
        assert (await exchanged(address, HEAD % 5 + b"hello")).endswith(b"hello")
        for reader, writer in slow:
            writer.write(b"x" * 99)
            assert (await reader.read()).endswith(b"x" * 100)
            writer.close()


async def test_of_bodies_that_are_too_large_together_the_one_that_takes_longest_is_dropped(echo: Echo) -> None:
    async with offering(echo, most_at_once=1) as address:
        first, its_writer = await begun(address, b"x" * 80)
        await exchanged(address, HEAD % 1 + b"x")  # so that the first one has arrived
        other, other_writer = await begun(address, b"x" * 80)
        await exchanged(address, HEAD % 1 + b"x")
        assert (await exchanged(address, HEAD % 60 + b"y" * 60)).endswith(b"y" * 60)
        assert await first.read() == b""
        other_writer.write(b"x" * 20)
        assert (await other.read()).endswith(b"x" * 100)
        its_writer.close()
        other_writer.close()


async def test_the_page_of_another_site_may_not_post(echo: Echo) -> None:
    async with offering(echo) as address:
        for field in (b"Origin: http://page.example", b"Sec-Fetch-Site: cross-site"):
            answer = await exchanged(address, (HEAD % 0).replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n"))
            assert answer.startswith(b"HTTP/1.1 403")
    assert echo.most_seen == 0


async def test_a_handler_that_waits_for_others_keeps_nobody_from_an_answer() -> None:
    echo = Echo()
    routes = {"/quick": lambda query: Response(200, TEXT, b"quick")}
    server = AdminServer(routes, tcp_posts=Posts(waiting={"/echo": echo.answer}))
    assert await server.open_tcp("127.0.0.1:0") == ""
    tasks = Tasks()
    try:
        async with asyncio.timeout(20):
            waiting = tasks.start(_discarded(exchanged(server.addresses[0], HEAD % 1 + b"x")))
            await echo.arrived.acquire()
            quick = b"GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            assert (await exchanged(server.addresses[0], quick)).endswith(b"quick")
            echo.may_answer.set()
            await waiting
    finally:
        await server.close()


async def _discarded(work: Coroutine[object, object, bytes]) -> None:
    await work
