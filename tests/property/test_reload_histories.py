"""Whatever happens to the configuration's file: the last valid content is in force, or the old one with the reason.

A model keeps what stands in the place after each operation; the daemon's half is real: files, place, watch, reloader.
"""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import KnownGood
from cri_proxy.config.load import load_source
from cri_proxy.config.model import Config
from cri_proxy.config.settings import settings_for
from cri_proxy.daemon.reload import Reloader
from cri_proxy.in_force.inotify import Inotify
from cri_proxy.in_force.watch import OnThreads, Watch
from tests.fakes.clock import ManualClock
from tests.fakes.kubelet_volume import KubeletVolume
from tests.fakes.reloads import Heard
from tests.testbed.wait import until

BAD = ("driftCheckSecond: 7", "driftCheckSeconds: often", "a: [", "- list", "\x00", "listen: nowhere")
KINDS = ("in place", "editor", "volume", "half a swap", "bad", "empty", "delete", "loop", "directory", "binary", "back")


@dataclass
class World:
    """The configuration directory. ``meant`` is the number that stands there, None while nothing valid does."""

    directory: Path
    meant: int | None = 10
    previous: list[int] = field(default_factory=lambda: [10])

    @property
    def file(self) -> Path:
        return self.directory / "default.yaml"

    def text(self, number: int) -> str:
        self.meant = number
        self.previous.append(number)
        return f"driftCheckSeconds: {number}\n"

    def clear(self) -> None:
        """An empty directory, where there was whatever there was."""
        self.meant = None
        if self.directory.is_symlink() or self.directory.is_file():
            self.directory.unlink()
        elif self.directory.exists():
            shutil.rmtree(self.directory)

    def do(self, kind: str, number: int) -> None:
        """One operation; each begins with what the last one left only where that makes sense."""
        if kind not in ("in place", "editor") or not self.file.is_file() or self.file.is_symlink():
            self.clear()
            self.directory.mkdir()
        match kind:
            case "in place":
                self.file.write_text(self.text(number))
            case "editor":
                (self.directory / ".swp").write_text(self.text(number))
                (self.directory / ".swp").rename(self.file)
            case "volume":
                KubeletVolume(self.directory).write({"default.yaml": self.text(number)})
            case "half a swap":
                for step in KubeletVolume(self.directory).steps({"default.yaml": self.text(number)}):
                    if step == "..data":
                        break
            case "bad":
                self.file.write_text(BAD[number % len(BAD)])
            case "back":
                self.file.write_text(self.text(self.previous[-1]))
            case _:
                self.spoil(kind)

    def spoil(self, kind: str) -> None:
        match kind:
            case "empty":
                self.file.touch()
            case "delete":
                self.clear()
            case "loop":
                self.file.symlink_to("default.yaml")
            case "directory":
                self.file.mkdir()
            case "binary":
                self.file.write_bytes(b"\xff\xfe\x00")


class Daemon:
    """The half of the daemon that follows files; what the node is told to do is kept."""

    def __init__(self, world: World) -> None:
        world.do("in place", 10)
        place = ConfigLocation(world.directory)
        source = place.read()
        started = replace(settings_for(load_source(place, source).config), location=place, source=source)
        self.reloader = Reloader(
            started,
            self._apply,
            list[KnownGood]().append,
            clock=ManualClock(),
            journal=Heard(),
            tell=lambda state: None,
        )
        self.place, self.source = place, source
        self.told = [10.0]

    async def _apply(self, config: Config, said: Sequence[str]) -> str:
        self.told.append(config.drift_check_seconds)
        return ""

    @property
    def number(self) -> int:
        return int(self.reloader.config.drift_check_seconds)

    def says_why_not(self) -> bool:
        return any("rejected, the old one stays: /" in warning for warning in self.reloader.warnings())


OPERATIONS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 99), st.booleans()), min_size=1, max_size=12)


@given(OPERATIONS)
@settings(max_examples=60, deadline=None)
async def test_after_every_look_the_last_valid_one_is_in_force_or_the_reason_is_told(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, bool]]
) -> None:
    world = World(tmp_path_factory.mktemp("reload") / "c")
    daemon = Daemon(world)
    watch = Watch(OnThreads(daemon.place), daemon.source, daemon.reloader.take, clock=ManualClock())
    expected = 10
    for i, (kind, number, is_looked_at) in enumerate(operations):
        world.do(kind, number)
        if not (is_looked_at or i == len(operations) - 1):
            continue
        await watch.check()
        expected = world.meant if world.meant is not None else expected
        assert daemon.number == expected
        assert daemon.says_why_not() == (world.meant is None)
        moves = len(daemon.told)
        await watch.check()
        assert len(daemon.told) == moves


class Hasty:
    """A clock on which ten seconds last one."""

    def now_seconds(self) -> float:
        return 0.0

    def monotonic_seconds(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@given(OPERATIONS)
@settings(max_examples=8, deadline=None)
async def test_the_kernel_tells_of_whatever_is_done(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, bool]]
) -> None:
    """No poll here: what inotify does not tell is not found."""
    world = World(tmp_path_factory.mktemp("reload") / "c")
    daemon = Daemon(world)

    async def is_settled() -> bool:
        is_in_force = world.meant is None or daemon.number == world.meant
        return is_in_force and daemon.says_why_not() == (world.meant is None)

    watch = Watch(OnThreads(daemon.place), daemon.source, daemon.reloader.take, clock=Hasty())
    watching = asyncio.get_running_loop().create_task(watch.watch(Inotify(watch.notice)))
    for kind, number, is_waited_for in operations:
        world.do(kind, number)
        if is_waited_for:
            await until(f"{kind} is seen", is_settled, seconds=20)
    await until("the last is seen", is_settled, seconds=20)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
