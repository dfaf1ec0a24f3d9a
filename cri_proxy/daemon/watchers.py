"""Poll for hotplug, watch configuration and cost files and reload them, keep what was good, answer ``plan``."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.files.location import FixedSource, Source
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.model import Config
from cri_proxy.config.settings import Settings
from cri_proxy.daemon.apply import HostApplier
from cri_proxy.daemon.reload import Reloader
from cri_proxy.errors import ConfigError
from cri_proxy.in_force.last_good_writer import LastGoodWriter, StateDirectory
from cri_proxy.in_force.watch import Follower, OnThreads, Watch
from cri_proxy.logs import change_logging
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.status.decision_views import PlanView
from cri_proxy.state.decisions import PinningChange
from sysfs.discover import Fingerprint

# By a poll: the files are few, and changes of cgroups, which send no event, are seen as well.
POLL_SECONDS = 5.0
# A machine is applied once two reads so far apart agree: CPUs are taken offline one by one.
SETTLE_SECONDS = 0.5
SETTLE_ROUNDS = 20


@dataclass(eq=False)
class HotplugWatcher:
    """Poll the machine's fingerprint; on a change call ``apply``, which returns '' or why it failed.

    ``look`` may block: it runs on a thread. ``in_force`` is the fingerprint of the machine in force, taken *before*
    that was discovered: no change is lost.
    """

    _look: Callable[[], Fingerprint]
    _apply: Callable[[], Awaitable[str]]
    clock: Clock
    journal: Journal
    in_force: Fingerprint | None = None
    _problem: str = field(default="", init=False)

    async def watch(self) -> None:
        """Check every few seconds until cancelled."""
        while True:
            await self.clock.sleep(POLL_SECONDS)
            await self.check()

    async def check(self) -> bool:
        """Check once; wait until a change has ended and apply the machine. Return whether a new one is in force."""
        seen = await asyncio.to_thread(self._look)
        if seen == self.in_force:
            self._problem = ""
            return False
        seen = await self._settled(seen)
        problem = await self._apply()
        if problem:
            if problem != self._problem:
                self.journal.noted(events.MACHINE_UNREADABLE, reason=problem)
            self._problem = problem  # tried again with every check
            return False
        # What was seen before the discovery: a change during it is found by the next check.
        self.in_force, self._problem = seen, ""
        return True

    async def _settled(self, seen: Fingerprint) -> Fingerprint:
        # Bounded: a machine that never stands still is applied as it is then.
        for _ in range(SETTLE_ROUNDS):
            await self.clock.sleep(SETTLE_SECONDS)
            again = await asyncio.to_thread(self._look)
            if again == seen:
                break
            seen = again
        return seen

    def warnings(self) -> tuple[str, ...]:
        """Return why the machine in force is not the present one, as a sentence."""
        said = "the machine has changed and the change cannot be applied, the old one stays in force"
        return (f"{said}: {self._problem}",) * bool(self._problem)


class Watchers:
    """Watches from ``follow`` on; a reload that is requested earlier is made then."""

    def __init__(
        self, settings: Settings, applier: HostApplier, state: StateDirectory, *, clock: Clock, seen: Fingerprint
    ) -> None:
        """``seen`` is the fingerprint of the machine in force, taken before its discovery."""
        journal, host = applier.node.context.journal, applier.host
        self._settings = settings
        self._applier, self._clock = applier, clock
        writer: LastGoodWriter[KnownGood] = LastGoodWriter(state, KNOWN_GOOD, events.CONFIG_NOT_KEPT)
        self.reloader = Reloader(settings, self._apply, writer.keep, clock=clock, journal=journal)
        place = settings.location or FixedSource(settings.source)
        watch: Watch[Source] = Watch(OnThreads(place), settings.source, self.reloader.take, clock=clock)
        self.configuration = Follower("configuration", watch, writer)
        devices, take = applier.devices, applier.take_files
        self._of_files = (
            devices.costs.follow(partial(take, devices.costs)),
            devices.listed.follow(partial(take, devices.listed)),
        )
        self.hotplug = HotplugWatcher(
            lambda: host.fingerprint(self.reloader.config),
            lambda: applier.take_machine(lambda: self.reloader.file_warnings),
            clock=clock,
            journal=journal,
            in_force=seen,
        )

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the operator, one sentence each."""
        return (*self.hotplug.warnings(), *self.reloader.warnings(), *self.configuration.warnings())

    def reload(self) -> None:
        """Apply configuration, cost files, inventory and health of devices as they are now, changed or not."""
        self.configuration.watch.ask()
        for each in self._of_files:
            each.watch.ask()
        self._applier.devices.health.ask_now()

    def follow(self) -> None:
        """Watch from now on, in the node's background."""
        node, configuration = self._applier.node, self.configuration
        if not self._applier.host.is_given:
            node.keep_doing(self.hotplug.watch, "hotplug")
        if self._settings.location is not None:
            # After the recovery: what a node has not come up with is not kept as good
            # (docs/adr/0011-kept-configuration.md).
            configuration.writer.keep(self.reloader.in_force)
        configuration.start(node.keep_doing)
        for each in self._of_files:
            each.start(node.keep_doing)
        health = self._applier.devices.health
        node.keep_doing(partial(health.keep, self._applier.take_health), "health of devices")
        node.keep_doing(partial(health.poll, self._clock), "health of devices poll")

    async def plan(self, text: str, group: str) -> PlanView:
        """Return the changes that this text in the configuration's file would make; nothing changes yet."""
        try:
            config, late = self.reloader.would_be(text, group)
        except ConfigError as error:
            return PlanView(str(error), is_kept=self.reloader.is_kept)
        planned = await self._applier.plan_config(config)
        moves = tuple(PinningChange.of(r.name, old, new) for r, old, new in planned.moves)
        return PlanView(planned.problem, tuple(each.key for each in late), moves, is_kept=self.reloader.is_kept)

    async def _apply(self, config: Config, said: Sequence[str]) -> str:
        before = self._applier.node.coordinator.config.log
        problem = await self._applier.take_config(config, said)
        if not problem and config.log != before:
            change_logging(config.log.level, config.log.format)
        return problem
