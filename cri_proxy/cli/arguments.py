"""Arguments that several commands have: paths, numbers of seconds, the machine to look at, a text to write."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cri_proxy.errors import CommandFailed
from policies.errors import PolicyBaseError

if TYPE_CHECKING:  # loaded late, by ``machine_of``
    from sysfs.model import Machine

T = TypeVar("T")
OptionsOf = argparse.ArgumentParser | argparse._ArgumentGroup
"""A parser, or a group of one: options are added to either."""
ROOT: Final = Path("/")
_MACHINE: Final = (
    "host (default), a directory that holds sys/, an archive FILE.tar.xz[:ROOT], a description, or a name of "
    "docs/reference/machines.md"
)


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return the type of an argument, whose reader's errors argparse shows as they are."""

    def shown(text: str) -> T:
        try:
            return read(text)
        except (ValueError, PolicyBaseError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return shown


def seconds(least: float, most: float) -> Callable[[str], float]:
    """Return the type of an argument that is a number of seconds within bounds."""

    def read(text: str) -> float:
        with suppress(ValueError):
            if least <= (value := float(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"expected seconds from {least:g} to {most:g}, got {text!r}")

    return read


def add_path(parser: OptionsOf, name: str, metavar: str, text: str, *, default: Path | None = None) -> None:
    """Add an option whose value is a path."""
    parser.add_argument(name, type=Path, default=default, metavar=metavar, help=text)


def add_repeated(
    parser: OptionsOf, name: str, metavar: str, text: str, read: type | Callable[[str], object] = str
) -> None:
    """Add an option that may be given several times; its value is the list of what ``read`` makes of each."""
    parser.add_argument(name, action="append", default=[], type=read, metavar=metavar, help=text)


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


def write_text(path: Path, text: str, what: str = "picture") -> None:
    """Write the text of a picture, or of ``what`` it is. Raises CommandFailed."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path}: the {what} cannot be written: {error.strerror or error}") from error
