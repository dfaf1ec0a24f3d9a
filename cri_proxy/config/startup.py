"""What a daemon is started with: what the file says, else what was in force before, with the command line over it."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cri_proxy.config.files.location import Place, Source
from cri_proxy.config.last_known_good import find
from cri_proxy.config.load import load_source
from cri_proxy.config.model import Config
from cri_proxy.config.option import Known
from cri_proxy.config.settings import Instead, Settings, host_node_name, settle
from cri_proxy.config.values import with_values
from cri_proxy.errors import ConfigError

EMPTIED = "is empty now: write {} if the defaults are meant"


def start_settings(path: Path | None, overrides: tuple[tuple[Known, object], ...]) -> Settings:
    """The settings for this ``--config`` and command line. Raises ConfigError.

    Where the file cannot be taken they are those of what was kept of it, if there is any: see ``with_kept``.
    """
    given = with_values(Config(), overrides)
    if path is None:
        return replace(settle(given), overrides=overrides)
    place = Place(path.absolute(), given.node_name or host_node_name(), given.node_group)
    source = place.read(may_wait=True)
    try:
        loaded = load_source(place, source)
        _refuse_emptied(given, place, source)
        settings = settle(
            with_values(loaded.config, overrides),
            config_path=place.path,
            warnings=(*loaded.warnings, *place.warnings()),
        )
        return replace(settings, place=place, source=source, overrides=overrides, from_file=loaded.config)
    except ConfigError as error:
        # The file does not say where the state is, so the command line does.
        unread = replace(_settled(given, error), place=place, source=source, overrides=overrides)
        settings_kept = with_kept(unread, error)
        if settings_kept is None:
            raise
        return settings_kept


def with_kept(settings: Settings, problem: ConfigError) -> Settings | None:
    """The settings of what was kept in their state directory; None when nothing was, of this ``--config``. Blocks.

    ``problem`` is what is wrong with the file. Raises ConfigError where what was kept cannot be used, saying both.
    """
    place = settings.place
    if place is None:
        return None
    try:
        kept = find(settings.state_dir, place.path)
        if kept is None:
            return None
        config = with_values(kept.config, settings.overrides)
        instead = settle(config, config_path=place.path, warnings=place.warnings())
    except ConfigError as error:
        both = f"{problem.problem}; nor can what was in force before be used: {error}"
        raise replace(problem, problem=both) from problem
    return replace(
        instead,
        place=place,
        source=settings.source,
        overrides=settings.overrides,
        takes_over=settings.takes_over,
        from_file=kept.config,
        instead=Instead(kept, problem),
    )


def _settled(config: Config, problem: ConfigError) -> Settings:
    """The settings of a command line alone; raises the file's problem where that contradicts itself."""
    try:
        return settle(config)
    except ConfigError:
        raise problem from None


def _refuse_emptied(given: Config, place: Place, source: Source) -> None:
    """Raise for an empty file where there was one: it is being written, or the disk was full.

    As the running daemon does; what an unusable kept configuration said nobody knows.
    """
    kept = None
    if not source.text.strip():
        with suppress(ConfigError):
            kept = find(Path(given.state_dir), place.path)
    if kept is not None and kept.config != Config():
        raise ConfigError(str(source.file), 0, "", EMPTIED)
