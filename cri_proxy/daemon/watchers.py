"""Follows what changes under a running daemon: the machine, and the configuration. Wired once, by ``app``."""

from collections.abc import Callable, Sequence

from cri_proxy.clock import Clock
from cri_proxy.config.files.inotify import Inotify
from cri_proxy.config.files.location import Nowhere, Source
from cri_proxy.config.files.watch import Watch
from cri_proxy.config.model import Config
from cri_proxy.config.settings import Settings
from cri_proxy.daemon.apply import Living
from cri_proxy.daemon.host import Host
from cri_proxy.daemon.last_known_good import Keeping
from cri_proxy.daemon.reload import Reloading
from cri_proxy.errors import ConfigError
from cri_proxy.logs import change_logging
from cri_proxy.node.hotplug import Hotplug
from cri_proxy.node.observer import Observer
from cri_proxy.node.status.model import PlanView
from cri_proxy.state.decisions import PinningChange, name_of
from cri_proxy.state.rows import Row
from policies.base import Pinning
from sysfs.fingerprint import Fingerprint


class Adapting:
    """Nothing is watched before ``follow``; a reload that is asked for earlier is made then."""

    def __init__(
        self, settings: Settings, living: Living, host: Host, *, clock: Clock, observer: Observer, seen: Fingerprint
    ) -> None:
        """``seen`` is the fingerprint of the machine in force, taken before it was discovered."""
        self._settings = settings
        self._living = living
        self._host = host
        self.reloading = Reloading(settings, self._apply, clock=clock, observer=observer)
        place = settings.place or Nowhere(settings.source)
        self.watch: Watch[Source] = Watch(place, settings.source, self.reloading.take, clock=clock)
        self.reloading.watch_problem = lambda: self.watch.problem
        self.hotplug = Hotplug(
            lambda: host.fingerprint(self.reloading.config),
            lambda: living.take_machine(host, lambda: self.reloading.file_warnings),
            clock=clock,
            observer=observer,
        )
        self.hotplug.start_from(seen)
        living.view.configuration_of = self.reloading.view
        self._keeping = Keeping(settings.state_dir, living.node.background, observer)
        self.reloading.keep = self._keeping.keep
        more: Sequence[Callable[[], tuple[str, ...]]] = (
            self.hotplug.warnings,
            self.reloading.warnings,
            self._keeping.warnings,
        )
        living.node.more_warnings.extend(more)

    def follow(self) -> None:
        """Watch from now on, in the node's background."""
        node = self._living.node
        if not self._host.is_given:
            node.keep_doing(self.hotplug.watch, "hotplug")
        node.keep_doing(lambda: self.watch.watch(Inotify(self.watch.notice)), "configuration")
        if self._settings.place is not None:
            self._keeping.keep(self.reloading.in_force)
            node.keep_doing(self.watch.poll, "configuration poll")

    async def plan(self, text: str, group: str) -> PlanView:
        """What it would come to if this text stood in the configuration's file; nothing changes."""
        try:
            config, late = self.reloading.would_be(text, group)
        except ConfigError as error:
            return PlanView(str(error), is_kept=self.reloading.is_kept)
        planned = await self._living.plan_config(self._host, config)
        moves = tuple(map(_move, planned.moves))
        return PlanView(planned.problem, tuple(each.key for each in late), moves, is_kept=self.reloading.is_kept)

    async def _apply(self, config: Config, said: Sequence[str]) -> str:
        problem = await self._living.take_config(self._host, config, said)
        if not problem:
            change_logging(config.log.level, config.log.format)
        return problem


def _move(move: tuple[Row, Pinning, Pinning]) -> PinningChange:
    row, before, after = move
    return PinningChange.of(name_of(row.grant.request), before, after)
