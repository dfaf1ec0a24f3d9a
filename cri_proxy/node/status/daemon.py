"""What the status covers beside the node itself: the configuration in force and the daemon around the node."""

from collections.abc import Iterable

from cri_proxy.config.model import Config
from cri_proxy.metrics.exposition import Sample
from cri_proxy.node.status.model import ConfigurationView, HealthPart


class ConfigInForce:
    """The configuration in force, with the warnings about it and the machine. A reload replaces both."""

    def __init__(self, config: Config, warnings: tuple[str, ...] = ()) -> None:
        """Start with these."""
        self._config = config
        self._warnings = warnings

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._config

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the operator."""
        return self._warnings

    def use(self, config: Config, warnings: tuple[str, ...]) -> tuple[str, ...]:
        """Replace both; return those warnings that are new."""
        fresh = tuple(warning for warning in warnings if warning not in self._warnings)
        self._config, self._warnings = config, warnings
        return fresh


class DaemonStatus:
    """A node without a daemon around it, as in the simulation; the daemon overrides what it knows more of."""

    def reaches_runtime(self) -> bool:
        """Return whether the runtime's socket answers."""
        return True

    def parts(self) -> Iterable[HealthPart]:
        """Return the health of the daemon's parts."""
        return ()

    def samples(self) -> Iterable[Sample]:
        """Return the daemon's metrics now."""
        return ()

    def configuration(self) -> ConfigurationView | None:
        """Return where the configuration stands; None where nothing can be reloaded."""
        return None

    def warnings(self) -> tuple[str, ...]:
        """Return what an operator should know now, a sentence each."""
        return ()
