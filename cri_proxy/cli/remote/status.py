"""The options of ``cri-proxy status`` for daemons of other nodes, one or many: --url, --nodes, and what these need."""

import argparse
from functools import partial
from typing import Final

from cri_proxy.cli.admin import decoded
from cri_proxy.cli.output import emit, is_colourful
from cri_proxy.cli.remote.node_list import nodes_of
from cri_proxy.cli.render.columns import terminal_width
from cri_proxy.cli.render.node_table import NodeRow, node_table, row_of
from cri_proxy.errors import CommandFailed
from cri_proxy.http.remote import DaemonUrl, RemoteDaemons, ask_all, read_url
from cri_proxy.node.status.model import StatusView

_STATUS: Final = "/api/v1/status"


def daemons_of(args: argparse.Namespace) -> RemoteDaemons:
    """Return the client that the options make. Raises CommandFailed."""
    return RemoteDaemons(ca_file=args.ca_file, token_file=args.token_file, seconds=args.timeout)


def url_of(text: str) -> DaemonUrl:
    """Return the daemon of a value of --url. Raises CommandFailed."""
    try:
        return read_url(text)
    except ValueError as error:
        raise CommandFailed(f"--url: {error}", 2) from None


def print_nodes(args: argparse.Namespace) -> int:
    """Print a row for each node of the list; 0 when all of them are ready. Raises CommandFailed."""
    daemons, nodes = daemons_of(args), nodes_of(args)
    calls = [partial(_view, daemons, url) for _, url in nodes]
    outcomes = ask_all(calls, seconds=args.timeout)
    rows = tuple(
        row_of(name, str(url), found.result)
        if found.result is not None
        else NodeRow(name, str(url), "unreachable", problems=(found.problem,))
        for (name, url), found in zip(nodes, outcomes, strict=True)
    )
    emit(rows, args.output, partial(node_table, colours=is_colourful(), width=terminal_width()))
    return 0 if all(row.state == "ready" for row in rows) else 1


def _view(daemons: RemoteDaemons, url: DaemonUrl) -> StatusView:
    return decoded(str(url), StatusView, daemons.ask(url, _STATUS))
