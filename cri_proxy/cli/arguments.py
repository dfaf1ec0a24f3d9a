"""Arguments that several commands have: paths, the machine to look at, and the directory that has its files."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cri_proxy.errors import CommandFailed

if TYPE_CHECKING:  # loaded late, by ``machine_of``
    from sysfs.model import Machine

ROOT: Final = Path("/")
_MACHINE: Final = "host (default), a directory that holds sys/, an archive FILE.tar.xz[:ROOT], or a description"


def add_path(
    parser: argparse.ArgumentParser, name: str, metavar: str, text: str, *, default: Path | None = None
) -> None:
    """Add an option whose value is a path."""
    parser.add_argument(name, type=Path, default=default, metavar=metavar, help=text)


def add_machine(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Add ``--machine``, by default the host; ``more`` ends its help."""
    parser.add_argument("--machine", default="host", metavar="SPEC", help=f"{_MACHINE}{more}")


def machine_of(spec: str) -> "Machine":
    """Return the machine that a value of ``--machine`` names. Raises CommandFailed and SysfsBaseError."""
    from sysfs.sources import load_machine

    try:
        return load_machine(spec)
    except OSError as error:
        raise CommandFailed(str(error)) from error


def root_of(spec: str) -> Path:
    """Return the directory below which the files of that machine are, as far as there is one."""
    path = ROOT if spec == "host" else Path(spec)
    return path.parent if path.name == "sys" else path
