"""An edit that was rejected costs nobody anything, whatever is restarted before it is put right."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.cli.check_config import check
from cri_proxy.node.status.model import ConfigurationView
from tests.fakes.waiting import holds
from tests.restart.place import SECONDS, Place
from tests.testbed.errors import TryoutError
from tests.testbed.wait import until

GOOD = "adopt: leave\n"
BAD = "adopt: leave\nreservedResource: {cpu: 1}\n"


class Configured:
    """The place's daemon with a configuration file, edited by hand."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.file = place.directory / "cri-proxy.yaml"
        self.state = place.directory / "state"
        self.file.write_text(GOOD)

    async def start(self) -> None:
        self.place.daemon = self.place.new_daemon("--config", str(self.file))
        await self.place.daemon.start()

    async def view(self) -> ConfigurationView:
        found = (await self.place.status()).configuration
        assert found is not None
        return found

    async def comes(self, outcome: str) -> None:
        async def it_has() -> bool:
            last = (await self.view()).last
            return last is not None and last.outcome == outcome

        await until(f"an edit is {outcome}", it_has, seconds=SECONDS)

    async def edit(self, text: str, outcome: str) -> None:
        self.file.write_text(text)
        await self.comes(outcome)

    def has_kept_something(self) -> bool:
        return (self.state / "config-in-force.json").exists()

    def logged(self, event: str) -> list[dict[str, object]]:
        """The lines of this event, of all daemons so far."""
        lines = (json.loads(line) for line in self.place.daemon.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]


@asynccontextmanager
async def configured(place: Place) -> AsyncIterator[Configured]:
    """The daemon runs with the good file, which is kept."""
    await place.daemon.stop()
    scene = Configured(place)
    await scene.start()
    await holds("it is kept", scene.has_kept_something, seconds=SECONDS)
    yield scene


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
async def test_a_restart_after_a_rejected_edit_moves_nobody_and_waits_for_the_next(
    place: Place, ending: signal.Signals
) -> None:
    async with configured(place) as scene:
        await place.run_pods(12)
        await place.saved()
        before, updates = place.pinned(), len(place.runtime.updates)
        await scene.edit(BAD, "rejected")
        await place.daemon.stop(ending)
        await scene.start()
        assert await place.daemon.admin.decides()
        assert (await scene.view()).is_kept
        (line,) = scene.logged("config_kept")
        assert (line["level"], line["line"], line["key"]) == ("error", 2, "reservedResource")
        assert "did you mean reservedResources?" in str(line["reason"])
        assert any("in force before" in warning for warning in (await place.status()).warnings)
        await scene.edit("adopt: pin\n", "applied")
        assert not (await scene.view()).is_kept
        assert (place.pinned(), len(place.runtime.updates)) == (before, updates)


async def test_check_config_says_what_a_start_would_go_on_with(place: Place) -> None:
    async with configured(place) as scene:
        await scene.edit(BAD, "rejected")
        report = await asyncio.to_thread(check, scene.file, place.directory / "admin.sock")
        assert (report.valid, report.line) == (False, 2)
        assert report.instead.startswith(f"{scene.file} as it was in force since 20")


async def test_a_first_start_with_an_invalid_file_ends(place: Place) -> None:
    await place.daemon.stop()
    scene = Configured(place)
    scene.file.write_text(BAD)
    with pytest.raises(TryoutError, match=r"cri-proxy.yaml:2: reservedResource: unknown option"):
        await scene.start()
    assert not scene.has_kept_something()
