"""Take a new configuration: keep back options that need a restart, apply the rest or reject all, report for status.

An option that is read at start only keeps its value, and a warning says that a restart is needed. To refuse the rest
because of it would leave an operator who edits two lines without either.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from cri_proxy import events, systemd
from cri_proxy.clock import Clock
from cri_proxy.config.files.location import ConfigLocation, Source
from cri_proxy.config.last_known_good import KnownGood
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.settings import Settings, settings_at
from cri_proxy.config.startup import EMPTY_FILE
from cri_proxy.config.values import differences, show_value, value_of, with_values
from cri_proxy.errors import ConfigError
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.status.model import ConfigurationView, ReloadView

Result = Literal["applied", "unchanged", "rejected"]

# Applies a configuration with its warnings; returns '', or why it was refused and nothing changed.
Apply = Callable[[Config, tuple[str, ...]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class NeedsRestart:
    """A changed option that needs a restart: the running value and the configured one."""

    key: str
    running: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.key}: {self.running} stays until a restart; the configuration says {self.wanted}"


def split_by_restart(started: Config, wanted: Config) -> tuple[Config, tuple[NeedsRestart, ...]]:
    """Split ``wanted`` into what a daemon started with ``started`` can apply, and what needs a restart."""
    fixed = [known for known in known_options() if not known.option.is_reloadable]
    late = tuple(
        NeedsRestart(known.key, show_value(before), show_value(after))
        for known, before, after in differences(started, wanted, fixed)
    )
    return with_values(wanted, [(known, value_of(started, known)) for known in fixed]), late


@dataclass(eq=False)
class Reloader:
    """Hold the configuration in force and replace it; ``in_force.watch`` calls ``take``.

    ``keep`` gets every configuration that is in force from now on, ``tell`` states for the service manager.
    """

    _settings: Settings
    _apply: Apply
    _keep: Callable[[KnownGood], None]
    clock: Clock
    journal: Journal
    tell: Callable[[str], None] = systemd.notify

    def __post_init__(self) -> None:
        settings = self._settings
        source, instead = settings.source, settings.fallback
        now_seconds = self.clock.now_seconds()
        path = settings.location.path if settings.location else source.file
        self.in_force = (
            instead.kept
            if instead is not None
            else KnownGood(settings.from_file, path, source.file, source.group, source.digest, now_seconds)
        )
        """The configuration to save for the next start, without the command line's options."""
        self._has_text = instead is not None or bool(source.text.strip())
        self.is_kept = instead is not None
        """Whether the daemon started with the last known good configuration and has applied no other since."""
        self._wanted = settings  # before options that need a restart are kept back
        self._late: tuple[NeedsRestart, ...] = ()
        self._counts: dict[Result, int] = {"applied": 0, "unchanged": 0, "rejected": 0}
        self._since_seconds = now_seconds
        self._last: ReloadView | None = None
        if instead is not None:
            self._counts["rejected"] = 1
            self._last = ReloadView(
                now_seconds, "rejected", str(instead.problem), instead.problem.path, False, source.digest
            )
        self.config = settings.config
        """The configuration in force."""
        self.file_warnings = settings.warnings
        """Sentences about the configuration, without those about the machine."""

    async def take(self, source: Source, is_asked: bool) -> None:
        """Apply the new configuration or keep the old one; notify systemd before and after, report the result."""
        began_seconds = self.clock.monotonic_seconds()
        self.tell(systemd.reloading())
        result: Result = "rejected"
        reason = "an internal error, see the log"
        try:
            result, reason = await self._attempt(source, is_asked=is_asked)
        finally:
            # In any case: after RELOADING=1 systemd counts the service as reloading until this (sd_notify(3)).
            self.tell("READY=1")
            self._record(source, result, reason=reason, is_asked=is_asked, began_seconds=began_seconds)

    def _record(self, source: Source, result: Result, *, reason: str, is_asked: bool, began_seconds: float) -> None:
        """Count and log the result, and keep it for ``status``."""
        self._counts[result] += 1
        self._last = ReloadView(self.clock.now_seconds(), result, reason, str(source.file), is_asked, source.digest)
        event = events.CONFIG_REJECTED if result == "rejected" else events.CONFIG_RELOADED
        self.journal.noted(
            event,
            outcome=result,
            file=str(source.file),
            sha256=source.digest[:12] or None,
            reason=reason or None,
            restart_for=[late.key for late in self._late] or None,
            asked=is_asked or None,
            duration_seconds=round(self.clock.monotonic_seconds() - began_seconds, 6),
        )

    async def _attempt(self, source: Source, *, is_asked: bool) -> tuple[Result, str]:
        try:
            wanted = self._read(source)
        except ConfigError as error:
            return "rejected", str(error)
        is_same = (wanted.config, wanted.warnings) == (self._wanted.config, self._wanted.warnings)
        # A comment was edited, say: nothing is placed again, yet the digest in ``status`` is that of the file.
        if is_same and not is_asked:
            self._note_in_force(source, wanted.from_file)
            return "unchanged", ""
        # Compared with the start, not with what is in force: such an option has its first value, whatever came since.
        config, late = split_by_restart(self._settings.config, wanted.config)
        warnings = (*wanted.warnings, *map(str, late))
        problem = await self._apply(config, warnings)
        if problem:
            return "rejected", problem
        # After the apply: a rejected one must not make the next equal text look unchanged.
        self._wanted, self._late = wanted, late
        self.config, self.file_warnings = config, warnings
        self._since_seconds = self.clock.now_seconds()
        self._note_in_force(source, wanted.from_file)
        return "applied", ""

    def _note_in_force(self, source: Source, from_file: Config) -> None:
        """Note which configuration is in force now, and whether the next start would find it."""
        config = split_by_restart(self._settings.from_file, from_file)[0]
        path, digest = self.in_force.path, source.digest
        self.in_force = KnownGood(config, path, source.file, source.group, digest, self._since_seconds)
        self._has_text, self.is_kept = bool(source.text.strip()), False
        if self._settings.location is not None:
            self._keep(self.in_force)

    def _read(self, source: Source) -> Settings:
        """Return the settings of the file with the command line over it. Raises ConfigError."""
        if self._settings.location is None:
            return self._wanted
        self._refuse_emptied(source)
        return settings_at(self._settings.location, source, self._settings.overrides)

    def would_be(self, text: str, group: str) -> tuple[Config, tuple[NeedsRestart, ...]]:
        """Return the configuration by this text, and the options that wait for a restart. Raises ConfigError."""
        found = Source(self.in_force.file, text, group)
        self._refuse_emptied(found)
        given = self._settings
        place = given.location or ConfigLocation(found.file, given.node_name, given.config.node_group)
        return split_by_restart(given.config, settings_at(place, found, given.overrides).config)

    def _refuse_emptied(self, source: Source) -> None:
        """Raise for an empty file where there was one: it is being written, or the disk is full."""
        if self._has_text and not source.problem and not source.text.strip():
            raise ConfigError(str(source.file), 0, "", EMPTY_FILE)

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the operator: a configuration that is not in force, and why."""
        if self._last is None or self._last.outcome != "rejected":
            return ()
        if not self.is_kept:
            return (f"the configuration has changed and was rejected, the old one stays: {self._last.reason}",)
        said = "the daemon has started with the configuration that was in force before, because the file is invalid"
        return (f"{said}: {self._last.reason}; correct it, and it is applied at once",)

    def view(self) -> ConfigurationView:
        """Return the configuration's part of the status."""
        return ConfigurationView(
            file=str(self.in_force.file) if self._settings.location else "",
            group=self._settings.config.node_group or self.in_force.group,
            digest=self.in_force.digest if self._settings.location else "",
            since_seconds=self._since_seconds,
            needs_restart=tuple(late.key for late in self._late),
            applied=self._counts["applied"],
            unchanged=self._counts["unchanged"],
            rejected=self._counts["rejected"],
            last=self._last,
            is_kept=self.is_kept,
            overridden=tuple(known.key for known, _ in self._settings.overrides),
        )
