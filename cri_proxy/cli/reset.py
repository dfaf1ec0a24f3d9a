"""``cri-proxy reset``: while no daemon runs, widen containers to every CPU and memory node, drop saved grants."""

import argparse
import asyncio
from functools import partial
from pathlib import Path

from cri_proxy.cli.arguments import add_path
from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph
from cri_proxy.config.settings import Settings
from cri_proxy.errors import CommandFailed
from cri_proxy.node.reset import ResetContainer, ResetReport
from sysfs.text import plural

EXAMPLE = """\
cri-proxy reset --dry-run
systemctl stop cri-proxy && cri-proxy reset
cri-proxy reset --config /etc/cri-proxy/cri-proxy.yaml -o json"""

STOP_COMMAND = "systemctl stop cri-proxy"
OPTIONS = frozenset({"stateDir", "runtimeEndpoint", "sysfsRoot"})
_WIDTHS = (24, 24, 14, 12)  # of the columns, before they wrap


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command: those of ``run`` that say where things are."""
    from cri_proxy.config.overrides import add_options

    add_path(parser, "--config", "PATH", "the daemon's configuration, which names its state directory and its runtime")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add_options(parser, only=OPTIONS)


def run(args: argparse.Namespace) -> int:
    """Widen and report; 1 when a container could not be widened. Raises CriProxyError and SysfsBaseError."""
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.run import settings_from
    from cri_proxy.daemon.app import EMBEDDED
    from cri_proxy.state.process_lock import LockHeld

    settings = settings_from(args)
    if settings.config.runtime_endpoint == EMBEDDED:
        raise CommandFailed("an embedded runtime ends with its daemon; there is nothing to reset", 2)
    try:
        report = asyncio.run(_reset(settings, is_dry=args.dry_run))
    except LockHeld as error:
        holder = f"process {error.pid}" if error.pid else "another process"
        raise CommandFailed(f"the daemon runs ({holder}): stop it first with `{STOP_COMMAND}`") from error
    emit(report, args.output, partial(render_reset, colours=is_colourful()))
    return 0 if report.is_complete else 1


async def _reset(settings: Settings, *, is_dry: bool) -> ResetReport:
    """Hold the decider's lock and reset. Raises CriProxyError."""
    from cri_proxy.config.model import Config
    from cri_proxy.config.resolve import policy_options
    from cri_proxy.node.drift.cgroups import Cgroups
    from cri_proxy.node.drift.scope_unit import SystemdScopes
    from cri_proxy.node.reset import NodeReset
    from cri_proxy.node.resource_files.updates import DIRECTORY
    from cri_proxy.runtime.client import RuntimeClient
    from cri_proxy.state.process_lock import DeciderLock
    from cri_proxy.state.store import Store
    from sysfs.discover import discover

    # Held to the end: a daemon that starts meanwhile would narrow containers that are just widened.
    lock = DeciderLock.acquire(settings.state_dir)
    try:
        machine = discover(settings.sysfs_root)
        # CPUs that the configuration withholds are available again once cri-proxy is gone.
        available = policy_options(Config(), machine, settings.sysfs_root).options.available
        store = Store.open(settings.state_dir / "state.db")
        channel = RuntimeClient(settings.config.runtime_endpoint)
        try:
            # A machine below another directory is not the one whose systemd would answer.
            units = SystemdScopes(Cgroups(settings.sysfs_root)) if settings.sysfs_root == Path("/") else None
            reset = NodeReset(channel, store, machine, settings.state_dir / DIRECTORY, units=units)
            return await reset.run(available, is_dry=is_dry)
        finally:
            await channel.close()
            await store.close()
    finally:
        lock.release()


def render_reset(report: ResetReport, *, colours: bool = False) -> str:
    """Return the report for people: a line per container, then a summary."""
    rows = [Cells(("container", "CPUs", "memory nodes", ""), ("dim",) * 4), *map(_cells, report.containers)]
    lines = layout(rows, column_widths(rows, _WIDTHS, flexible=0), colours=colours) if report.containers else []
    for each in report.containers:
        if each.problem:
            lines += paragraph(f"{each}: {each.problem}", "  ")
    return "\n".join([*lines, *([""] if lines else []), *paragraph(_summary(report), "")])


def _cells(each: ResetContainer) -> Cells:
    style = {"refused": "red", "widened": "green"}.get(each.outcome, "")
    cpus = _change(str(each.before.cpus or ""), str(each.after.cpus or ""))
    mems = _change(str(each.before.mems or ""), str(each.after.mems or ""))
    return Cells((str(each), cpus, mems, each.outcome), ("", "", "", style))


def _change(before: str, after: str) -> str:
    return f"{before or 'any'} -> {after or 'any'}" if before != after else before or "any"


def _summary(report: ResetReport) -> str:
    outcomes = [each.outcome for each in report.containers]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(sorted(outcomes))]
    grants = plural(report.dropped, "saved grant")
    dropped = f"{grants} would be dropped" if report.is_dry else f"{grants} dropped"
    found = ", ".join(counts) if counts else "no container runs"
    which = "that were refused" if "refused" in outcomes else "with a problem"
    tail = "" if report.is_complete else f"; run it again for those {which}"
    return f"{found}; {dropped}{tail}."
