"""A device plugin in this process, with its log, in front of a kubelet's directory, on a clock that is fast."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

from cri_proxy.clock import SystemClock
from cri_proxy.inventory.health_source import NO_HEALTH, HealthSource
from cri_proxy.kubelet.device_plugin.plugin import DevicePlugin
from cri_proxy.kubelet.device_plugin.settings import PluginSettings, plugin_resources
from cri_proxy.kubelet.device_plugin.sources import PluginSources
from cri_proxy.logs import configure_logging
from tests.fakes.waiting import holds

TIMES = 100


class FastClock(SystemClock):
    """Its sleeps take a hundredth of the time; ``slept`` has them."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds / TIMES)


class RunningPlugin:
    """A plugin that serves. ``log`` has its lines."""

    def __init__(self, settings: PluginSettings) -> None:
        self._stream = StringIO()
        self.stop, self.reload = asyncio.Event(), asyncio.Event()
        self.clock = FastClock()
        self._plugin = DevicePlugin(settings, log=configure_logging("info", "json", self._stream), clock=self.clock)

    async def serve(self) -> None:
        await self._plugin.serve(self.stop, self.reload)

    def lines(self, event: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in found if line["event"] == event]

    async def says(self, event: str, count: int = 1) -> dict[str, object]:
        """Wait for so many lines of an event and return the last one."""
        await holds(f"{count} lines of {event}", lambda: len(self.lines(event)) >= count)
        return self.lines(event)[-1]


def settings_of(
    directory: Path,
    sources: PluginSources,
    names: Sequence[str] = (),
    forms: Sequence[str] = (),
    health: HealthSource = NO_HEALTH,
) -> PluginSettings:
    return PluginSettings(sources, plugin_resources(names, forms), directory, health)


@asynccontextmanager
async def running(settings: PluginSettings) -> AsyncIterator[RunningPlugin]:
    plugin = RunningPlugin(settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(plugin.serve())
        yield plugin
        plugin.stop.set()
