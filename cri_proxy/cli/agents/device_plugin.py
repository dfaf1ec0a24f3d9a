"""``cri-proxy device-plugin``: offer the devices of a node to the kubelet, as one resource for each type."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cri_proxy.cli.arguments import ROOT, add_path, add_repeated

if TYPE_CHECKING:
    from cri_proxy.inventory.health_source import HealthSource
    from cri_proxy.kubelet.device_plugin.plugin import DevicePlugin
    from cri_proxy.kubelet.device_plugin.settings import PluginSettings

EXAMPLE = """\
cri-proxy device-plugin --inventory /etc/cri-proxy/devices.yaml
cri-proxy device-plugin --inventory scan --state-dir /var/lib/cri-proxy
cri-proxy device-plugin --inventory scan --resource gpu=nvidia.com/gpu --links /etc/cri-proxy/links.txt
cri-proxy device-plugin --inventory scan --resource rdma=example.com/vf --offer rdma=vfs
cri-proxy device-plugin --inventory scan --resource gpu=cri-proxy.io/gpu-quarter --offer gpu=shares:4"""

SCAN = "scan"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--inventory",
        required=True,
        metavar="FILE|scan",
        help="a file that lists the devices; scan: the PCI devices of this machine",
    )
    named = "offer a type of the inventory (gpu, ...) under this name, and no type that is not named; repeatable"
    add_repeated(parser, "--resource", "TYPE=NAME", f"{named} (default: each type that there is, as cri-proxy.io/TYPE)")
    offered = (
        "whole: each device goes to one container (default); vfs: its virtual functions do; shares:N: each gpu or "
    )
    spread = "rdma device is offered N times; shares:N:spread: shares of the GPU least in use first"
    add_repeated(parser, "--offer", "TYPE=FORM", f"{offered}{spread}")
    add_path(
        parser,
        "--links",
        "FILE",
        "the output of nvidia-smi topo -m, rocm-smi --showtopo or amd-smi topology: linked GPUs first",
    )
    add_path(parser, "--costs", "FILE", "a cost file: devices that are near each other first")
    add_path(parser, "--health", "FILE", "a report of which devices are healthy, read every 30 s")
    runs = "a program with its arguments that prints such a report, as '/usr/bin/nvidia-smi -q -x'"
    parser.add_argument("--health-command", default="", metavar="COMMAND", help=runs)
    add_path(parser, "--plugin-dir", "DIR", "the kubelet's (default: /var/lib/kubelet/device-plugins)")
    numbers = "where the numbers of scanned devices are kept over restarts: /var/lib/cri-proxy, for the numbers that "
    add_path(parser, "--state-dir", "DIR", f"{numbers}the daemon has (default: nowhere)")
    holds = "the directory that holds sys, proc, etc and var: of the devices of a scan, GPU identifiers and CDI files"
    add_path(parser, "--sysfs-root", "DIR", f"{holds} (default: /)", default=ROOT)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises ConfigError for options and files that cannot be used."""
    settings = settings_of(args)
    from cri_proxy.clock import SystemClock
    from cri_proxy.kubelet.device_plugin.plugin import DevicePlugin
    from cri_proxy.logs import configure_logging
    from cri_proxy.relay.event_loop import run_on_loop

    plugin = DevicePlugin(settings, log=configure_logging("info", "auto"), clock=SystemClock())
    run_on_loop(_serve(plugin))
    return 0


def settings_of(args: argparse.Namespace) -> "PluginSettings":
    """Return the settings that the options make. Raises ConfigError."""
    from cri_proxy.kubelet.device_plugin.settings import PLUGIN_DIRECTORY, PluginSettings, plugin_resources
    from cri_proxy.kubelet.device_plugin.sources import PluginSources

    inventory = None if args.inventory == SCAN else Path(args.inventory).absolute()
    links, costs = (path.absolute() if path is not None else None for path in (args.links, args.costs))
    state_dir = None if args.state_dir is None else args.state_dir.absolute()
    sources = PluginSources(inventory, links, costs, sysfs_root=args.sysfs_root, state_dir=state_dir)
    directory = PLUGIN_DIRECTORY if args.plugin_dir is None else args.plugin_dir.absolute()
    return PluginSettings(sources, plugin_resources(args.resource, args.offer), directory, health_of(args))


def health_of(args: argparse.Namespace) -> "HealthSource":
    """Return what is asked for the health of devices. Raises ConfigError."""
    from cri_proxy.config.addresses import command_words
    from cri_proxy.errors import COMMAND_LINE, ConfigError
    from cri_proxy.inventory.health_source import HealthSource

    try:
        words = command_words(args.health_command) if args.health_command else ()
    except ValueError as error:
        raise ConfigError(COMMAND_LINE, 0, "--health-command", str(error)) from None
    return HealthSource("" if args.health is None else str(args.health.absolute()), words)


async def _serve(plugin: "DevicePlugin") -> None:
    import asyncio
    import signal

    from cri_proxy.tasks import stop_event

    stopping, reload = stop_event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
    await plugin.serve(stopping, reload)
