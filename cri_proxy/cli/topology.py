"""``cri-proxy topology``: show a machine (this one, a capture or a description) as a tree, as data or as SVG."""

import argparse
from pathlib import Path
from typing import Final

from cri_proxy.cli.arguments import add_machine, add_path, machine_of, write_text
from cri_proxy.cli.help.parser import WithoutEffect
from sysfs.model import Machine

EXAMPLE = """\
cri-proxy topology
cri-proxy topology --machine tests/golden/machines/2s4n-pci.tar.xz -o json
cri-proxy topology --machine '{packages: 2, nodes: 2, cores: 4, threads: 2, memory: 8Gi}' --svg machine.svg"""

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        ("-o", "--output"),
        "with --svg, which prints nothing",
        lambda args: args.svg is not None and args.output != "text",
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_machine(parser, more=" (a YAML file, or in braces)")
    add_path(parser, "--config", "PATH", "a configuration file or directory, for its memoryKinds")
    add_path(parser, "--svg", "FILE", "write a picture instead of printing the tree")


def run(args: argparse.Namespace) -> int:
    """Print or draw the machine. Raises SysfsBaseError, ConfigError and CommandFailed."""
    from cri_proxy.cli.output import emit
    from cri_proxy.cli.render.columns import terminal_width
    from sysfs.show.as_json import json_value
    from sysfs.show.outline import outline
    from sysfs.show.picture import picture

    machine = machine_of(args.machine)
    if args.config is not None:
        machine = _as_configured(machine, args.config)
    if args.svg is None:
        emit(machine, args.output, lambda known: outline(known, terminal_width()).rstrip(), plain=json_value)
        return 0
    write_text(args.svg, picture(machine))
    return 0


def _as_configured(machine: Machine, path: Path) -> Machine:
    """Return the machine with the memory kinds that the configuration sets. Raises ConfigError."""
    from cri_proxy.config.load import load_config
    from cri_proxy.config.memory_kinds import kind_by_node
    from cri_proxy.kubelet.distribution_files import kubelet_node_name
    from sysfs.memory_kind import with_memory_kinds

    config = load_config(path, node_name=kubelet_node_name()).config
    return with_memory_kinds(machine, kind_by_node(config.memory_kinds))
