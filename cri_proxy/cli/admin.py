"""The commands' client of the daemon's admin socket: the ``--admin`` option, GET and POST, answers decoded to views."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from cri_proxy.cli.arguments import OptionsOf
from cri_proxy.codec import CodecError, decode
from cri_proxy.http.client import DaemonUnreachable, ask

DEFAULT_ADMIN = "unix:///run/cri-proxy/admin.sock"

V = TypeVar("V")


def add_admin_option(parser: OptionsOf) -> None:
    """Add ``--admin``: the daemon's admin socket, beside its listen socket."""
    parser.add_argument(
        "--admin",
        type=_socket_path,
        default=_socket_path(DEFAULT_ADMIN),
        metavar="unix://PATH",
        help=f"the running daemon's admin socket, beside its listen socket (default {DEFAULT_ADMIN})",
    )


def _socket_path(text: str) -> Path:
    path = text.removeprefix("unix://")
    if not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"expected unix:///PATH, got {text!r}")
    return Path(path)


def fetch(
    path: Path, target: str, kind: type[V], query: Mapping[str, str] | None = None, *, post: str | None = None
) -> V:
    """Return the view of this kind that the daemon answers to GET, or to POST of this text.

    Raises DaemonUnreachable.
    """
    return decoded(str(path), kind, ask(path, target, query, post=post))


def decoded(where: str, kind: type[V], plain: object) -> V:
    """Return the view of this kind that was answered there. Raises DaemonUnreachable."""
    try:
        return decode(kind, plain)
    except CodecError as error:
        raise DaemonUnreachable(where, f"answered something else ({error}): is it another version?") from error
