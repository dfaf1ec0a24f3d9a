"""``Settings``: what one daemon process runs with: the configuration, its source, sockets and node name."""

import socket
from collections.abc import Iterator
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
    for key, problem in contradictions(config):
        raise ConfigError(str(config_path) if config_path else COMMAND_LINE, 0, key, problem)
    return Settings(
        config=config,
        node_name=config.node_name or node_name or host_node_name(),
        state_dir=Path(config.state_dir),
        sysfs_root=Path(config.sysfs_root),
        warnings=warnings,
    )


def contradictions(config: Config) -> Iterator[tuple[str, str]]:
    """Yield options that cannot be together, by key, and why."""
    tls = config.http_tls
    pairs = (
        ("imageListen", config.image_listen, "imageEndpoint", config.image_endpoint),
        ("httpTLS.certificate", tls.certificate, "httpTLS.key", tls.key),
    )
    for one, is_one, other, is_other in pairs:
        if bool(is_one) != bool(is_other):
            given, missing = (one, other) if is_one else (other, one)
            yield given, f"needs {missing} as well: give both or neither"
    if tls.tokens and not tls.certificate:
        yield "httpTLS.tokenFile", "a token that is sent over HTTP can be read on its way: give certificate and key too"
    if tls.tokens and config.extender:
        yield "extender", "kube-scheduler sends no token: run `cri-proxy extender`, or leave httpTLS.tokenFile out"


def settings_at(location: ConfigLocation, source: Source, overrides: tuple[tuple[Known, object], ...]) -> Settings:
    """Return the settings of what was found at this location, the command line over it. Raises ConfigError."""
    loaded = load_source(location, source)
    config = with_values(loaded.config, overrides)
    settings = settings_for(config, config_path=source.file, warnings=loaded.warnings, node_name=location.node_name)
    return replace(settings, location=location, source=source, overrides=overrides, from_file=loaded.config)
