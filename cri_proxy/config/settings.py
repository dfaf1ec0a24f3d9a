"""``Settings``: what one daemon process runs with: the configuration, its source, sockets and node name."""

import socket
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.config.files.location import ConfigLocation, Source
from cri_proxy.config.last_known_good import KnownGood
from cri_proxy.config.load import load_source
from cri_proxy.config.model import Config
from cri_proxy.config.option import Known
from cri_proxy.config.values import with_values
from cri_proxy.errors import COMMAND_LINE, ConfigError

ADMIN_SOCKET = "admin.sock"


@dataclass(frozen=True, slots=True)
class Fallback:
    """The start uses the last known good configuration, because the file has this problem."""

    kept: KnownGood
    problem: ConfigError


@dataclass(frozen=True, slots=True)
class Settings:
    """Frozen for the life of the process; ``config`` is what reloading replaces in the node.

    ``warnings`` are sentences about the configuration for the log. ``location`` is where it is read again, ``source``
    what was found there at start, ``from_file`` its options and ``overrides`` those of the command line, which win.
    ``fallback``: these are not the file's options but the last known good ones; None: they are the file's.
    ``takes_over``: ask the process that uses this state directory to hand over.
    """

    config: Config
    node_name: str
    state_dir: Path
    sysfs_root: Path
    warnings: tuple[str, ...] = ()
    location: ConfigLocation | None = None
    source: Source = Source(Path(COMMAND_LINE), "")  # noqa: RUF009 - frozen
    overrides: tuple[tuple[Known, object], ...] = ()
    from_file: Config = Config()  # noqa: RUF009 - frozen
    fallback: Fallback | None = None
    takes_over: bool = False

    @property
    def admin_socket(self) -> Path:
        """The socket of the daemon's commands, beside the listen socket."""
        return Path(self.config.listen.removeprefix("unix://")).with_name(ADMIN_SOCKET)


def host_node_name() -> str:
    """Return the node name that the kubelet uses without ``--hostname-override``: the host name in lower case."""
    return socket.gethostname().strip().lower()


def settings_for(
    config: Config, *, config_path: Path | None = None, warnings: tuple[str, ...] = (), node_name: str = ""
) -> Settings:
    """Return the settings of this configuration, whose node's name is ``node_name`` where it has none.

    Raises ConfigError where options contradict each other.
    """
    if bool(config.image_listen) != bool(config.image_endpoint):
        given, missing = ("imageListen", "imageEndpoint") if config.image_listen else ("imageEndpoint", "imageListen")
        where = str(config_path) if config_path else COMMAND_LINE
        raise ConfigError(where, 0, given, f"needs {missing} as well: give both or neither")
    return Settings(
        config=config,
        node_name=config.node_name or node_name or host_node_name(),
        state_dir=Path(config.state_dir),
        sysfs_root=Path(config.sysfs_root),
        warnings=warnings,
    )


def settings_at(location: ConfigLocation, source: Source, overrides: tuple[tuple[Known, object], ...]) -> Settings:
    """Return the settings of what was found at this location, the command line over it. Raises ConfigError."""
    loaded = load_source(location, source)
    config = with_values(loaded.config, overrides)
    settings = settings_for(config, config_path=source.file, warnings=loaded.warnings, node_name=location.node_name)
    return replace(settings, location=location, source=source, overrides=overrides, from_file=loaded.config)
