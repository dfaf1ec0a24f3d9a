"""Generate command-line flags from the configuration's options, and read the values given with them."""

import argparse
from collections.abc import Callable, Container
from functools import partial

from cri_proxy.config.model import known_options
from cri_proxy.config.option import Known, read_value, values_text

_DEST = "config "  # no option of another kind has a space in its destination


def add_options(parser: argparse.ArgumentParser, *, only: Container[str] | None = None) -> None:
    """Add every option of the model that has a flag, or ``only`` these keys; a wrong value is wrong usage (exit 2)."""
    group = parser.add_argument_group("configuration", "each of these wins over the configuration file")
    for known in known_options():
        if known.option.flag and (only is None or known.key in only):
            _add(group, known)


def _add(group: argparse._ArgumentGroup, known: Known) -> None:
    flag, dest = known.option.flag, _DEST + known.key
    # argparse formats help with %.
    text = known.option.text.replace("`", "").replace("%", "%%")
    if known.type is bool:
        group.add_argument(flag, dest=dest, nargs="?", const=True, type=_reader(known), metavar="true|false", help=text)
        off = f"--no-{flag.removeprefix('--')}"
        group.add_argument(off, dest=dest, action="store_const", const=False, help=f"the same as {flag}=false")
        return
    values = "" if known.choices else f" [{values_text(known).replace('`', '')}]"
    metavar = "|".join(known.choices) or _metavar(known)
    group.add_argument(flag, dest=dest, type=_reader(known), metavar=metavar, help=f"{text}{values}")


def _metavar(known: Known) -> str:
    """Return a short name for the value; the resources take ``cpu=`` before it, as cri-resource-manager does."""
    return "cpu=VALUE" if known.path[-1] == "cpu" else known.option.flag.rpartition("-")[2].upper()


def _reader(known: Known) -> Callable[[str], object]:
    return partial(_read, known)


def _read(known: Known, text: str) -> object:
    """Return the value. Raises ArgumentTypeError."""
    if known.path[-1] == "cpu":
        resource, equals, value = text.partition("=")
        if equals and resource != "cpu":
            raise argparse.ArgumentTypeError(f"expected cpu=VALUE, got {text!r}: only CPUs can be given here")
        text = value if equals else text
    try:
        return read_value(known, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def given_options(args: argparse.Namespace) -> tuple[tuple[Known, object], ...]:
    """Return the options given on the command line, with their values."""
    given = ((known, getattr(args, _DEST + known.key, None)) for known in known_options())
    return tuple((known, value) for known, value in given if value is not None)
