"""``cri-proxy doctor``: look at the node, its kubelet and the daemon; print what has to be changed, in order."""

import argparse
import os
from functools import partial
from pathlib import Path

from cri_proxy.cli.arguments import ROOT, add_path

EXAMPLE = """\
cri-proxy doctor
cri-proxy doctor -o json | jq -r '.findings[] | select(.severity == "must") | .code'
cri-proxy doctor --before-removal"""

DEFAULT_CONFIG = "/etc/cri-proxy/cri-proxy.yaml"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from cri_proxy.cli.admin import add_admin_option

    parser.add_argument(
        "--before-removal",
        action="store_true",
        help="only whether the kubelet depends on cri-proxy: 0 when it does not, 1 when it does",
    )
    text = f"the daemon's configuration, read when no daemon answers (default {DEFAULT_CONFIG})"
    add_path(parser, "--config", "PATH", text, default=Path(DEFAULT_CONFIG))
    parser.add_argument(
        "--listen", default="", metavar="unix://PATH", help="the socket for the kubelet (default: the daemon's)"
    )
    add_path(parser, "--root", "DIR", "the directory with etc, proc, sys and var (/)", default=ROOT)
    add_admin_option(parser)
    parser.set_defaults(admin=None)  # it follows --listen


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 when nothing must be mended, 1 when something must, 2 when too little could be seen."""
    from cri_proxy.cli.admin import DEFAULT_ADMIN
    from cri_proxy.cli.output import emit, is_colourful
    from cri_proxy.cli.render.columns import terminal_width
    from cri_proxy.cli.render.doctor import render_doctor, render_removal
    from cri_proxy.config.settings import ADMIN_SOCKET
    from cri_proxy.doctor.facts.node import Places, look_at_node
    from cri_proxy.doctor.report import examine, examine_removal
    from cri_proxy.errors import CommandFailed
    from cri_proxy.unix_socket import socket_path

    if args.root == ROOT and os.geteuid() != 0:
        raise CommandFailed("only root sees whom the kubelet talks to, and the daemon's files: run it as root", 2)
    beside = socket_path(args.listen).with_name(ADMIN_SOCKET) if args.listen else socket_path(DEFAULT_ADMIN)
    facts = look_at_node(Places(args.root, args.admin or beside, args.config, args.listen))
    if args.before_removal:
        report, text = examine_removal(facts), partial(render_removal, width=terminal_width())
    else:
        report = examine(facts)
        text = partial(render_doctor, colours=is_colourful(), width=terminal_width())
    emit(report, args.output, text)
    return report.status
