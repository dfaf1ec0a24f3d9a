import asyncio
from random import Random

from cri_proxy.errors import CriProxyError
from cri_proxy.exporter.exporter import PERIOD_SECONDS, Exporter
from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import ApiRefused
from tests.fakes.site import InstantClock, Silent


class Part:
    """Fails as scripted, then works; keeps when it was called."""

    def __init__(self, clock: InstantClock, *errors: CriProxyError, name: str = "part") -> None:
        self.name = name
        self._clock = clock
        self._errors = list(errors)
        self.calls: list[float] = []
        self.most = 0
        self.had_enough = asyncio.Event()

    async def step(self) -> None:
        self.calls.append(self._clock.monotonic_seconds())
        if len(self.calls) == self.most:
            self.had_enough.set()
        if self._errors:
            raise self._errors.pop(0)


class Told(Silent):
    """Keeps all events."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, object]] = []

    def info(self, event: str, **fields: object) -> None:
        self.told.append((event, fields.get("what")))

    def warning(self, event: str, **fields: object) -> None:
        self.told.append((event, fields.get("remedy")))


def away() -> Unreachable:
    return Unreachable("https://a", "Connection refused")


async def serve(*parts: Part, clock: InstantClock, log: Silent, calls: int) -> None:
    """Run until the first part has been called so often."""

    parts[0].most = calls
    await Exporter(parts, clock, log, Random(1)).serve(parts[0].had_enough.wait)


def pauses(part: Part) -> list[float]:
    return [after - before for before, after in zip(part.calls, part.calls[1:], strict=False)]


async def test_a_part_looks_again_and_again() -> None:
    clock, log = InstantClock(), Told()
    part = Part(clock)
    await serve(part, clock=clock, log=log, calls=3)
    assert pauses(part)[:2] == [PERIOD_SECONDS] * 2
    assert log.told == []


async def test_failures_wait_longer_and_longer_and_are_told_once() -> None:
    clock, log = InstantClock(), Told()
    part = Part(clock, *(away() for _ in range(4)))
    await serve(part, clock=clock, log=log, calls=6)
    for least, waited in zip((1.0, 2.0, 4.0, 8.0), pauses(part), strict=False):
        assert least <= waited <= 1.5 * least
    assert log.told == [("not_exported", None), ("exported_again", "part")]


async def test_another_failure_is_told_too_and_a_remedy_where_one_is_known() -> None:
    clock, log = InstantClock(), Told()
    forbidden = ApiRefused("POST /x", 403, "Forbidden", "")
    await serve(Part(clock, away(), forbidden, forbidden), clock=clock, log=log, calls=4)
    assert [event for event, _ in log.told] == ["not_exported", "not_exported", "exported_again"]
    assert "exporter/daemonset.yaml" in str(log.told[1][1])


async def test_a_server_that_names_a_time_is_left_alone_as_long() -> None:
    clock, log = InstantClock(), Told()
    part = Part(clock, ApiRefused("PUT /x", 429, "TooManyRequests", "", 40.0))
    await serve(part, clock=clock, log=log, calls=2)
    assert pauses(part)[0] >= 40.0


async def test_a_part_that_fails_stops_no_other() -> None:
    clock, log = InstantClock(), Told()
    bad, good = Part(clock, *(away() for _ in range(9)), name="bad"), Part(clock, name="good")
    await serve(good, bad, clock=clock, log=log, calls=5)
    assert bad.calls


async def test_once_tries_all_and_says_whether_they_worked() -> None:
    clock, log = InstantClock(), Told()
    bad, good = Part(clock, away(), name="bad"), Part(clock, name="good")
    assert not await Exporter((bad, good), clock, log, Random(1)).once()
    assert good.calls
    assert await Exporter((bad, good), clock, log, Random(1)).once()
