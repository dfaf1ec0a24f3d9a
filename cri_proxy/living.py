"""A configuration on a machine, put in force: at start, and again when one of the two changes under a running node."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.config.cpus import CpuList, CpuQuantity
from cri_proxy.config.model import Config
from cri_proxy.config.resources import policy_options
from cri_proxy.errors import ConfigError
from cri_proxy.node.context import Rules
from cri_proxy.node.node import Node
from cri_proxy.node.reader import Reader
from cri_proxy.node.reconfigure import NotReconfigured, reconfigure
from cri_proxy.node.view import NodeView
from cri_proxy.relay.intercept import CriInterceptor
from policies.base import Policy
from policies.registry import build_policy
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class Built:
    """What a configuration amounts to on a machine. ``warnings`` are sentences for the operator."""

    config: Config
    machine: Machine
    policy: Policy
    warnings: tuple[str, ...]


def build(config: Config, machine: Machine, root: Path) -> Built:
    """What it amounts to on this machine; cgroups are read below ``root``. Raises ConfigError, PolicyBaseError."""
    resolved = policy_options(config, machine, root)
    policy = build_policy(config.policy, resolved.machine, resolved.options)
    return Built(config, resolved.machine, policy, (*resolved.warnings, *policy.notes))


def build_anyway(config: Config, machine: Machine, root: Path) -> Built:
    """The same for a machine that has changed under us: reserved CPUs that went away are made up for by others.

    Raises as ``build`` does when nothing helps.
    """
    try:
        return build(config, machine, root)
    except ConfigError as error:
        bearable = _with_fewer_reserved(config, machine, root)
        if bearable is None:
            raise
        built = build(bearable, machine, root)
        note = f"{error.key}: {error.problem}; reserved instead: {bearable.reserved.cpu}"
        return replace(built, config=config, warnings=(*built.warnings, note))


def _with_fewer_reserved(config: Config, machine: Machine, root: Path) -> Config | None:
    """The configuration with those of its reserved CPUs that are left, or as many others; None: they are no list."""
    wanted = config.reserved.cpu
    if not isinstance(wanted, CpuList):
        return None
    unreserved = replace(config, reserved=replace(config.reserved, cpu=None))
    available = policy_options(unreserved, machine, root).options.available
    left = wanted.cpus & available
    count = min(len(wanted.cpus), len(available))
    return replace(config, reserved=replace(config.reserved, cpu=CpuList(left) if left else CpuQuantity(1000 * count)))


@dataclass(frozen=True, slots=True)
class Living:
    """The parts of a daemon that must see a change; ``reader_of`` makes the reader for a machine and configuration."""

    node: Node
    interceptor: CriInterceptor
    view: NodeView
    reader_of: Callable[[Built], Reader]

    async def change(self, built: Built, *, must_fit: bool) -> str:
        """Put this in force as a whole; '' or why not, then nothing has changed (never so without ``must_fit``)."""
        result = await reconfigure(self.node, built.policy, Rules.of(built.config), must_fit=must_fit)
        if isinstance(result, NotReconfigured):
            return result.text
        self.interceptor.use_reader(self.reader_of(built))
        self.view.use(built.config, built.warnings)
        return ""
