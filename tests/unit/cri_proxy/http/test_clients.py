"""Connections of clients, no more than so many."""

import asyncio
from collections.abc import Awaitable, Callable

from cri_proxy.http.clients import Clients


class Talks:
    """Connections that are idle or busy as a test says; ``ended`` are those that are over."""

    def __init__(self, most: int) -> None:
        self.clients = Clients(most)
        self.ended: list[str] = []

    async def come(self, name: str, *, idle: bool = True) -> bool:
        """Whether one more was let in, and has begun to be idle or busy."""
        if not self.clients.makes_room():
            return False
        begun = asyncio.Event()
        self.clients.serve(self._talk(name, begun, idle=idle))
        await begun.wait()
        return True

    async def _talk(self, name: str, begun: asyncio.Event, *, idle: bool) -> None:
        try:
            begun.set()
            if idle:
                with self.clients.idle():
                    await asyncio.Event().wait()
            await asyncio.Event().wait()
        finally:
            self.ended.append(name)


def play(act: Callable[[Talks], Awaitable[None]], *, most: int) -> None:
    async def run() -> None:
        talks = Talks(most)
        async with asyncio.timeout(20):
            await act(talks)
        await talks.clients.cancel()

    asyncio.run(run())


def test_who_has_been_idle_longest_gives_way() -> None:
    async def act(talks: Talks) -> None:
        for name in ("busy", "a", "b", "c"):
            assert await talks.come(name, idle=name != "busy")
        assert await talks.come("d")
        assert talks.ended == ["a"]

    play(act, most=4)


def test_there_is_room_while_fewer_are_open() -> None:
    async def act(talks: Talks) -> None:
        assert [await talks.come(name) for name in "ab"] == [True, True]
        assert (talks.ended, len(talks.clients)) == ([], 2)

    play(act, most=2)


def test_there_is_no_room_where_all_are_busy() -> None:
    async def act(talks: Talks) -> None:
        assert [await talks.come(name, idle=False) for name in "ab"] == [True, False]

    play(act, most=1)


def test_however_many_come_at_once_no_more_are_open_than_may_be() -> None:
    async def act(talks: Talks) -> None:
        for name in "abc":
            await talks.come(name)
        assert await asyncio.gather(*(talks.come(name) for name in "defgh")) == [True] * 3 + [False] * 2
        assert (talks.ended, len(talks.clients)) == (["a", "b", "c"], 3)

    play(act, most=3)
