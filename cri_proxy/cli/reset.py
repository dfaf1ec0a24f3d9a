"""``cri-proxy reset``: undoes the pinning of every container, for the uninstallation."""

import argparse
import asyncio
import sys
from pathlib import Path

from cri_proxy.config.settings import COMMAND_LINE, Settings
from cri_proxy.node.reset_report import ResetReport

HELP = "widen every container back to all CPUs and memory nodes, while the daemon is stopped"
EXAMPLE = """\
cri-proxy reset --dry-run
systemctl stop cri-proxy && cri-proxy reset
cri-proxy reset --config /etc/cri-proxy/cri-proxy.yaml -o json"""

STOP_COMMAND = "systemctl stop cri-proxy"
OPTIONS = frozenset({"stateDir", "runtimeEndpoint", "sysfsRoot"})


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command: those of ``run`` that say where things are."""
    from cri_proxy.config.overrides import add_options

    parser.add_argument(
        "--config", type=Path, metavar="PATH", help="the daemon's configuration: where its state and its runtime are"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_options(parser, only=OPTIONS)


def run(args: argparse.Namespace) -> int:
    """Widen and report; 1 when the daemon runs, the runtime is away, or a container could not be widened."""
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.reset import render_reset
    from cri_proxy.cli.run import settings_from
    from cri_proxy.daemon.app import EMBEDDED
    from cri_proxy.errors import ConfigError, CriProxyError
    from cri_proxy.state.lock import LockHeld
    from sysfs.errors import SysfsBaseError

    try:
        settings = settings_from(args)
        if settings.runtime_endpoint == EMBEDDED:
            print("cri-proxy reset: an embedded runtime ends with its daemon: nothing to reset", file=sys.stderr)
            return 2
        report = asyncio.run(_reset(settings, is_dry=args.dry_run))
    except ConfigError as error:
        print(f"cri-proxy reset: {error}", file=sys.stderr)
        return 2 if error.path == COMMAND_LINE else 1
    except LockHeld as error:
        who = f"process {error.pid}" if error.pid else "another process"
        print(f"cri-proxy reset: the daemon runs ({who}): stop it first with `{STOP_COMMAND}`", file=sys.stderr)
        return 1
    except (CriProxyError, SysfsBaseError) as error:
        print(f"cri-proxy reset: {error}", file=sys.stderr)
        return 1
    emit(report, args.output, render_reset(report, colours=is_colourful()))
    return 0 if report.is_complete else 1


async def _reset(settings: Settings, *, is_dry: bool) -> ResetReport:
    """Hold the decider's lock and reset. Raises CriProxyError."""
    from cri_proxy.config.model import Config
    from cri_proxy.config.resolve import policy_options
    from cri_proxy.node.reset import NodeReset
    from cri_proxy.node.resource_files.updates import DIRECTORY
    from cri_proxy.runtime.client import RuntimeClient
    from cri_proxy.state.lock import DeciderLock
    from cri_proxy.state.store import Store
    from sysfs.discover import discover

    lock = DeciderLock.acquire(settings.state_dir)
    try:
        machine = discover(settings.sysfs_root)
        # Whatever the configuration keeps from containers, without us nobody keeps it from them.
        available = policy_options(Config(), machine, settings.sysfs_root).options.available
        store = Store.open(settings.state_dir / "state.db")
        channel = RuntimeClient(settings.runtime_endpoint)
        try:
            reset = NodeReset(channel, store, machine, settings.state_dir / DIRECTORY)
            return await reset.run(available, is_dry=is_dry)
        finally:
            await channel.close()
            await store.close()
    finally:
        lock.release()
