"""Build the ``Settings`` of a start: from the file and flags, or the last known good file if it is invalid."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cri_proxy.config.files.location import ConfigLocation, Source
from cri_proxy.config.last_known_good import find_known_good
from cri_proxy.config.model import Config
from cri_proxy.config.option import Known
from cri_proxy.config.settings import Fallback, Settings, host_node_name, settings_at, settings_for
from cri_proxy.config.values import with_values
from cri_proxy.errors import ConfigError, StoreError

EMPTY_FILE = "is empty now: write {} if the defaults are meant"


def start_settings(path: Path | None, overrides: tuple[tuple[Known, object], ...], node_name: str = "") -> Settings:
    """Return the settings for this ``--config`` and command line. Raises ConfigError.

    ``node_name`` is that of a node for which no option names another, '' for the host's name.
    Where the file cannot be used, they are the last known good ones of this path, if there are any.
    """
    given = with_values(Config(), overrides)
    if path is None:
        return replace(settings_for(given, node_name=node_name), overrides=overrides)
    location = ConfigLocation(path.absolute(), given.node_name or node_name or host_node_name(), given.node_group)
    # A pipe as in --config <(...): it is read once, at the start alone.
    source = location.read(may_wait=True)
    try:
        settings = settings_at(location, source, overrides)
        # After the parse, which takes an empty file for the defaults.
        _refuse_emptied(given, location, source)
        return settings
    except ConfigError as error:
        # The file cannot say where the state is, so the command line does.
        unread = replace(_settled(given, error), location=location, source=source, overrides=overrides)
        settings_kept = fall_back(unread, error)
        if settings_kept is None:
            raise
        return settings_kept


def fall_back(settings: Settings, problem: ConfigError) -> Settings | None:
    """Return the last known good settings; None when the state directory has none of this ``--config``. Blocks.

    ``problem`` is what is wrong with the file. Raises ConfigError where the saved ones cannot be used either, with both
    problems.
    """
    location = settings.location
    if location is None:
        return None
    try:
        kept = find_known_good(settings.state_dir, location.path)
        if kept is None:
            return None
        config = with_values(kept.config, settings.overrides)
        instead = settings_for(
            config, config_path=location.path, warnings=settings.source.warnings, node_name=location.node_name
        )
    except (ConfigError, StoreError) as error:
        both = f"{problem.problem}; nor can what was in force before be used: {error}"
        raise replace(problem, problem=both) from problem
    return replace(
        instead,
        location=location,
        source=settings.source,
        overrides=settings.overrides,
        takes_over=settings.takes_over,
        from_file=kept.config,
        fallback=Fallback(kept, problem),
    )


def _settled(config: Config, problem: ConfigError) -> Settings:
    """Return the settings of a command line alone. Raises the file's problem where they contradict each other."""
    try:
        return settings_for(config)
    except ConfigError:
        raise problem from None


def _refuse_emptied(given: Config, location: ConfigLocation, source: Source) -> None:
    """Raise ConfigError for an empty file that had options before: it is being written, or the disk was full.

    The running daemon does the same.
    """
    kept = None
    if not source.text.strip():
        with suppress(StoreError):
            kept = find_known_good(Path(given.state_dir), location.path)
    if kept is not None and kept.config != Config():
        raise ConfigError(str(source.file), 0, "", EMPTY_FILE)
