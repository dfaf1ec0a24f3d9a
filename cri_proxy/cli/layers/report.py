"""The report of a configuration that is checked, with the CPUs that it gives on a machine."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cri_proxy.config.cpus import CgroupCpus
from cri_proxy.config.model import Config
from cri_proxy.errors import ConfigError
from cri_proxy.state.decisions import PinningChange

if TYPE_CHECKING:  # loaded late, by ``resolve``
    from policies.policy import Policy

# A machine other than this host has no cgroups to read CPUs from.
_NO_ROOT = Path("/dev/null")


@dataclass(frozen=True, slots=True)
class OptionChange:
    """An option whose value differs; both values as they are written.

    Where the file does not set it, ``new`` is the default.
    ``needs_restart``: a running daemon keeps the old value until then.
    """

    key: str
    old: str
    new: str
    is_in_file: bool = True
    needs_restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfig:
    """A configuration and whether a start would take it. ``line`` is 0 where the mistake is in no single one.

    ``machine`` is what the CPUs were resolved on, a directory or a ``--machine``; ``available`` and ``reserved`` are
    CPU lists, '' without a machine or where the configuration is not valid. ``hints`` are what an operator may want to
    consider; nothing is wrong.
    """

    valid: bool = True
    file: str
    error: str = ""
    line: int = 0
    key: str = ""
    warnings: tuple[str, ...] = ()
    machine: str = ""
    available: str = ""
    reserved: str = ""
    hints: tuple[str, ...] = ()


Checked = TypeVar("Checked", bound=CheckedConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReport(CheckedConfig):
    """The result of the check of one. ``against`` is ``defaults`` or ``daemon``.

    ``problem`` is why the running daemon would reject it now ('' = it would apply it, or was not asked), ``moves`` the
    containers it would update; ``is_planned``: it has answered.
    ``instead`` is the configuration that a start would use where this one is not valid ('' = it would fail).
    ``cost_files`` are what the configuration's cost files list, in a sentence ('' = there are none or they were not
    read), ``cost_problems`` why one of them, or the inventory, cannot be used, with file and line.
    ``overridden`` are options whose value in the file has no effect, because the running daemon's command line sets
    them to ``old``; None where no daemon has answered what its command line sets.
    """

    against: str = "defaults"
    changes: tuple[OptionChange, ...] = ()
    is_planned: bool = False
    problem: str = ""
    moves: tuple[PinningChange, ...] = ()
    instead: str = ""
    overridden: tuple[OptionChange, ...] | None = None
    cost_files: str = ""
    cost_problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Return whether the daemon would start with it, with all its cost files, and apply it now."""
        return self.valid and not self.problem and not self.cost_problems


def resolve(report: Checked, config: Config, root: Path, spec: str = "") -> Checked:
    """Return the report with the CPUs of a machine; not valid when the daemon would refuse to start on it.

    The machine is that of ``spec`` (a ``--machine``), '' = the one below ``root``.
    """
    from cri_proxy.config.resolve import policy_options
    from policies.builder import build_policy
    from policies.errors import PolicyBaseError
    from sysfs.discover import discover
    from sysfs.errors import SysfsBaseError
    from sysfs.sources import load_machine

    report = replace(report, machine=spec or str(root))
    cgroup_root = _cgroup_root(spec) if spec else root
    unchecked: tuple[str, ...] = ()
    try:
        machine = load_machine(spec) if spec else discover(root)
        if cgroup_root == _NO_ROOT:
            config, unchecked = without_cgroup(config)
        resolved = policy_options(config, machine, cgroup_root)
        policy = build_policy(config.policy, resolved.machine, resolved.options)
    except ConfigError as error:
        return replace(report, valid=False, key=error.key, error=error.problem)
    except (PolicyBaseError, SysfsBaseError) as error:
        return replace(report, valid=False, error=str(error))
    short, unused = _reservation(config, policy, root) if not spec and config.policy != "none" else ((), ())
    return replace(
        report,
        warnings=(*report.warnings, *unchecked, *resolved.warnings, *policy.notes, *short),
        hints=(*report.hints, *unused),
        available=str(resolved.options.available),
        reserved=str(resolved.options.reserved),
    )


def _reservation(config: Config, policy: "Policy", root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a warning where the kubelet lets pods request more CPU than can be granted, and a remark where less."""
    from cri_proxy.kubelet.reservation import NodeCpus, reservation_gap
    from cri_proxy.kubelet.unit import read_reserve

    reserve = read_reserve(root, Path(config.kubelet_root))
    if reserve is None:
        return (), ()
    machine = policy.machine
    node = NodeCpus(machine.online, policy.available, policy.reserved, machine.isolated, policy.kept_cpus)
    gap = reservation_gap(reserve, node)
    said = (str(gap),) if gap is not None else ()
    return (said, ()) if gap is not None and gap.excess_mcpu > 0 else ((), said)


def _cgroup_root(spec: str) -> Path:
    """Return the directory that holds this machine's ``sys/fs/cgroup``."""
    if spec == "host":
        return Path("/")
    return Path(spec) if not spec.lstrip().startswith("{") and Path(spec).is_dir() else _NO_ROOT


def without_cgroup(config: Config) -> tuple[Config, tuple[str, ...]]:
    """Return the configuration for a machine whose cgroups are not here, and a warning if it names one."""
    spec = config.available.cpu
    if not isinstance(spec, CgroupCpus):
        return config, ()
    warning = f"availableResources.cpu: {spec} is a cgroup of the node: not checked here, all online CPUs are taken"
    return replace(config, available=replace(config.available, cpu=None)), (warning,)
