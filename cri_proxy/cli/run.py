"""``cri-proxy run``: define its flags, build the settings from file and flags, run the daemon until it is stopped."""

import argparse
import gc
import importlib
import os
import signal
import sys
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from cri_proxy.cli.arguments import add_path
from cri_proxy.daemon.memory import collect_while_loading, load_yaml_of_c, without_openssl
from cri_proxy.helper_process import Launcher

if TYPE_CHECKING:  # loaded late, by ``settings_from``
    from cri_proxy.config.settings import Settings

EXAMPLE = """\
cri-proxy run --reserved-resources cpu=750m
cri-proxy run --config /etc/cri-proxy/cri-proxy.yaml --runtime-endpoint unix:///run/crio/crio.sock
cri-proxy run --config /etc/cri-proxy/cri-proxy.yaml --take-over
cri-proxy run --runtime-endpoint embedded --listen unix:///tmp/cri-proxy.sock --state-dir /tmp/state"""

_HELPERS_CODE: Final = (
    "cri_proxy.in_force.text_files",
    "cri_proxy.costs.merge",
    "cri_proxy.inventory.health_source",
    "cri_proxy.inventory.merge",
    "cri_proxy.inventory.numbers",
    "cri_proxy.device_files.cdi",
    "cri_proxy.device_files.locality",
    "cri_proxy.device_files.mounts",
    "cri_proxy.device_files.nvidia_driver",
    "cri_proxy.device_files.pci_functions",
    "cri_proxy.kubelet.unit",
    "cri_proxy.node.drift.kubelet_state",
    "cri_proxy.node.resource_files.directories",
    "cri_proxy.state.process_lock",
    "cri_proxy.state.session",
)
"""All modules of what helpers do, loaded before the launcher is forked.

So helpers start within milliseconds, and load nothing late, when an upgrade may have replaced the package.
"""


def fork_launcher() -> Launcher:
    """Fork the launcher of helper processes, before anything starts a thread.

    The launcher keeps the old copy of each page of memory that the daemon changes later, by counting references if by
    nothing else: so it is forked with what helpers need and little more, before the configuration is read.
    """
    with collect_while_loading():
        for name in _HELPERS_CODE:
            importlib.import_module(name)
    gc.collect()  # 5 ms: what is left of it
    gc.freeze()  # a collection writes to every object that it visits
    return Launcher.fork(_HELPERS_CODE)


def register(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` and an option for each flag of the configuration's model."""
    from cri_proxy.config.overrides import add_options

    file = "a configuration file, or a mounted ConfigMap directory with cri-proxy.yaml, else node.NAME, group.NAME or "
    add_path(parser, "--config", "PATH", f"{file}default (with .yaml or without), else cri-resource-manager's sections")
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="replace the running daemon that uses these sockets and this state; it exits once the calls of its "
        "clients have ended; not for a daemon run by systemd (restart the service instead)",
    )
    add_options(parser)


def settings_from(args: argparse.Namespace) -> "Settings":
    """Return the settings of the daemon to start. Raises ConfigError."""
    from cri_proxy.config.overrides import given_options
    from cri_proxy.config.startup import start_settings
    from cri_proxy.kubelet.distribution_files import kubelet_node_name

    return start_settings(args.config, given_options(args), kubelet_node_name())


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises CriProxyError, PolicyBaseError and SysfsBaseError when the start fails."""
    # Objects made at the start stay: collecting garbage would cost a sixth of the start. The daemon turns it on.
    gc.disable()
    # By default SIGHUP ends the process until the daemon handles it; the file is about to be read anyway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        load_yaml_of_c()
        with ExitStack() as opened:
            with without_openssl():
                launcher = opened.enter_context(closing(fork_launcher()))
                with collect_while_loading():
                    settings = replace(settings_from(args), takes_over=args.take_over)
                    from cri_proxy.daemon import app
            return app.run(settings, launcher, leave)
    finally:
        gc.enable()


def leave(status: int) -> NoReturn:
    """End the process without joining its threads: one may wait for a file that never answers."""
    for stream in (sys.stdout, sys.stderr) if status == 0 else ():  # else perhaps the log's reader is what hangs
        with suppress(OSError, ValueError):  # it is closed, or its reader is gone
            stream.flush()
    os._exit(status)
