"""``cri-proxy convert``: a configuration of cri-resource-manager or nri-plugins, written as ours."""

import argparse
import sys
from pathlib import Path

from cri_proxy.errors import CommandFailed

EXAMPLE = """\
cri-proxy convert configs/nri-plugins.yaml
cri-proxy convert --node-group realtime configs/nri-plugins.yaml > cri-proxy.yaml"""

_STDIN = "-"


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("file", metavar="FILE", help="the peer's file or object, or - (standard input)")
    parser.add_argument("--node-name", default="", help="of a file for several nodes, convert what counts on this one")
    parser.add_argument("--node-group", default="", help="and in this group")


def run(args: argparse.Namespace) -> int:
    """Print the configuration. Raises CommandFailed and ConfigError for a file that cannot be read."""
    from cri_proxy.cli.output import say
    from cri_proxy.config.convert import convert

    try:
        text = sys.stdin.read() if args.file == _STDIN else Path(args.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{args.file}: {getattr(error, 'strerror', None) or error}") from None
    say(convert(text, args.file, node_name=args.node_name, node_group=args.node_group))
    return 0
