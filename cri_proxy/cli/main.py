"""The entry point: list commands, import only the named one, parse its options, run it, map errors to exit statuses."""

import argparse
import importlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol, TypedDict, cast

from cri_proxy.cli.help.commands import COMMANDS, GROUPS, ROWS, CommandRow
from cri_proxy.daemon.memory import share_dataclass_methods
from cri_proxy.errors import COMMAND_LINE, CommandFailed, ConfigError, CriProxyError
from cri_proxy.foreign_text import shorten, visible
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError

PROG = "cri-proxy"
DESCRIPTION = "Pins the containers of a Kubernetes node to CPUs and memory, as a proxy in front of the runtime."
OUTPUTS = ("text", "json", "yaml")
EXIT_USAGE = 2
# 128 + the signal's number, as a shell reports it.
EXIT_INTERRUPTED = 130


class Command(Protocol):
    """The interface of a command's module."""

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
    """Reports wrong usage in one line, not below a screen of options."""

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
    command.register(parser)
    if ROWS[name].has_output and not ROWS[name].actions:
        parser.add_argument(
            "-o", "--output", choices=OUTPUTS, default="text", help="text for people (default), or data"
        )
    return parser


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


def overview() -> str:
    """Return the help of the program itself."""
    from cri_proxy.cli.render.columns import paragraph

    lines = [f"usage: {PROG} COMMAND [options]", "", *paragraph(DESCRIPTION, "")]
    for title, rows in GROUPS.items():
        lines += ["", f"{title}:"]
        for row in rows:
            lines += paragraph(row.text, " " * 16, first=f"  {row.name:<14}")
    lines += [
        "",
        "options:",
        "  -h, --help    this text; after a command, that command's",
        "  help COMMAND  the same",
        "  --version     the version",
    ]
    lines += ["", "example:", f"  {PROG} demo", f"  {PROG} run --reserved-resources cpu=750m"]
    return "\n".join(lines)


def _unknown(word: str) -> int:
    from cri_proxy.cli.output import complain
    from sysfs.known_words import did_you_mean

    kind = "option" if word.startswith("-") else "command"
    complain(f"{PROG}: unknown {kind} {word!r}; {did_you_mean(word, COMMANDS)}")
    return EXIT_USAGE


def _describe(option: str) -> int:
    """Print the version or the overview."""
    from cri_proxy.cli.output import complain, say
    from cri_proxy.version import commit, version

    built_from = f" (commit {commit()})" if commit() else ""
    try:
        say(f"{PROG} {version()}{built_from}" if option == "--version" else overview())
    except CommandFailed as error:
        complain(f"{PROG}: {error}")
        return error.status
    return 0


def run_command(argv: Sequence[str]) -> int:
    """Run this command line, given without the program's name; return the exit status."""
    if not argv:
        from cri_proxy.cli.output import complain

        complain(overview())
        return EXIT_USAGE
    name, *rest = argv
    if name in ("-h", "--help", "--version"):
        return _describe(name)
    if name == "help":
        return run_command([*rest, "--help"])
    if name not in COMMANDS:
        return _unknown(name)
    whole = name
    if rest and rest[0] in ROWS[name].actions:
        whole, rest = f"{name} {rest[0]}", rest[1:]
    command = load_command(whole)
    try:
        args = command_parser(whole, command).parse_args(rest)
    except SystemExit as stop:  # argparse raises it after --help (0) and wrong usage (2)
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    return _run(name, command, args)


def _run(name: str, command: Command, args: argparse.Namespace) -> int:
    """Run a command; report an expected error in one line."""
    try:
        return command.run(args)
    except (CriProxyError, PolicyBaseError, SysfsBaseError) as error:
        from cri_proxy.cli.output import complain

        complain(f"{PROG} {name}: {visible(shorten(str(error)))}")
        if isinstance(error, CommandFailed):
            return error.status
        return EXIT_USAGE if isinstance(error, ConfigError) and error.path == COMMAND_LINE else 1


def main() -> None:
    """Run the command and exit with its status: the entry point."""
    share_dataclass_methods()
    try:
        status = run_command(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        from cri_proxy.cli.output import discard

        discard(sys.stdout)  # the reader (head, less) is gone
        status = 0
    sys.exit(status)


if __name__ == "__main__":
    main()
