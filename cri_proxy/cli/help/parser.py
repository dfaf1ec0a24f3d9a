"""Load the module of a command, and build the parser of its command line."""

import argparse
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, TypedDict, cast

from cri_proxy.cli.help.commands import PROG, ROWS, CommandRow
from cri_proxy.errors import CommandFailed
from cri_proxy.foreign_text import visible

OUTPUTS: Final = ("text", "json", "yaml")
EXIT_USAGE: Final = 2


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """Options that are refused where they would have no effect: ``where`` ends that sentence, ``is_so`` decides it."""

    options: tuple[str, ...]
    where: str
    is_so: Callable[[argparse.Namespace], bool]


class Command(Protocol):
    """The interface of a command's module; it may also have ``WITHOUT_EFFECT``, a tuple of rows."""

    EXAMPLE: str

    def register(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command; return 0 for success, 1 for a negative result, 2 for wrong usage."""


class CheckedOptions(argparse.RawDescriptionHelpFormatter):
    """Formats an option to check it while it is added: of any width, since to ask for it loads three libraries."""

    def __init__(self, prog: str) -> None:
        """As for a terminal of 80 columns."""
        super().__init__(prog, width=78)


class CommandParser(argparse.ArgumentParser):
    """Reports wrong usage in one line, not below a screen of options; also options that would have no effect."""

    without_effect: tuple[WithoutEffect, ...] = ()

    def parse_known_args(  # type: ignore[override]  # its overloads are about namespaces of other classes
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the values and the words that are not known, as argparse does; refuse an option without effect."""
        words = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(words, namespace)
        given = _given(words)
        idle = [
            f"{option} has no effect {row.where}"
            for row in self.without_effect
            for option in row.options
            if option in given and row.is_so(found)
        ]
        if idle:
            self.error("; ".join(idle))
        return found, unknown

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.description = textwrap.fill(self.description or "", 79)
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where the options are listed; exit with status 2."""
        self.exit(EXIT_USAGE, f"{self.prog}: {visible(message)}; see {self.prog} --help\n")


def load_command(name: str) -> Command:
    """Import the module of a command or action, or the texts of a command with actions."""
    row = ROWS[name]
    module = importlib.import_module(row.path)
    return ActionsCommand(row.actions, module.EXAMPLE) if row.actions else cast("Command", module)


def command_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """Build the parser of one command or action, with its example in the help."""
    parser = CommandParser(f"{PROG} {name}", **help_of(ROWS[name], command.EXAMPLE))
    parser.without_effect = getattr(command, "WITHOUT_EFFECT", ())
    command.register(parser)
    if ROWS[name].has_output and not ROWS[name].actions:
        parser.add_argument(
            "-o", "--output", choices=OUTPUTS, default="text", help="text for people (default), or data"
        )
    return parser


def _given(words: list[str]) -> set[str]:
    """Return the options among these words; their names are never abbreviated (``help_of``).

    >>> sorted(_given(["-ojson", "--port=1", "--url", "x", "--", "--pool"]))
    ['--port', '--url', '-o']
    """
    options = words[: words.index("--")] if "--" in words else words
    return {word.partition("=")[0] if word.startswith("--") else word[:2] for word in options if word.startswith("-")}


class CommandHelp(TypedDict):
    """The arguments of a parser that follow from a command's texts."""

    description: str
    epilog: str
    formatter_class: type[argparse.RawDescriptionHelpFormatter]
    allow_abbrev: bool


def help_of(row: CommandRow, example: str) -> CommandHelp:
    """Return a parser's arguments for a command: what it does, and its example."""
    return CommandHelp(
        description=f"{row.text[0].upper()}{row.text[1:]}.",
        epilog="\n  ".join(("example:", *example.splitlines())),
        formatter_class=CheckedOptions,
        allow_abbrev=False,
    )


class ActionsCommand:
    """A command with actions, when no action is named first: it can only explain which there are."""

    def __init__(self, actions: Mapping[str, CommandRow], example: str) -> None:
        self.EXAMPLE = example
        self._actions = actions

    def register(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions without their options, which are not looked at."""
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, row in self._actions.items():
            actions.add_parser(name, help=row.text)

    def run(self, args: argparse.Namespace) -> int:
        """Complain: what stands before the action has no meaning."""
        raise CommandFailed("name the action first", EXIT_USAGE)
