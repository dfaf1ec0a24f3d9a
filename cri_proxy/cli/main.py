"""The entry point: list commands, import only the named one, parse its options, run it, map errors to exit statuses."""

import argparse
import importlib
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn, Protocol, TypedDict, cast

from cri_proxy.daemon.memory import share_dataclass_methods
from cri_proxy.errors import COMMAND_LINE, CommandFailed, ConfigError, CriProxyError
from cri_proxy.foreign_text import shorten, visible
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError

PROG = "cri-proxy"
DESCRIPTION = "Pins the containers of a Kubernetes node to CPUs and memory, as a proxy in front of the runtime."
# The overview: headings, and below each its commands.
GROUPS = (
    ("every day", ("status", "explain", "fit", "doctor", "check-config", "lint")),
    ("try and plan", ("demo", "simulate", "convert", "topology", "capture", "hints")),
    ("devices", ("devices", "gpu", "select", "costs")),
    ("services", ("run", "device-plugin", "extender", "exporter", "config-agent", "reset")),
)
COMMANDS = tuple(command for _, commands in GROUPS for command in commands)
# The commands with actions, and the folder with their modules.
FOLDERS = {"costs": "cost_actions", "gpu": "gpu_actions", "hints": "hint_actions", "devices": "device_actions"}
# Their modules are in the folder ``agents``.
AGENTS = ("config-agent", "device-plugin", "exporter", "extender")
# They print no result, and hence have no -o/--output; of a command with actions the actions have it.
WITHOUT_OUTPUT = ("run", "convert", *FOLDERS, *AGENTS)
OUTPUTS = ("text", "json", "yaml")
EXIT_USAGE = 2
# 128 + the signal's number, as a shell reports it.
EXIT_INTERRUPTED = 130


class Command(Protocol):
    """The interface of a command's module."""

    HELP: str
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
    """Import the module of a command, or the texts of one with actions."""
    if name in FOLDERS:
        return ActionsCommand(FOLDERS[name])
    module = name.replace("-", "_")
    return cast("Command", importlib.import_module(f"cri_proxy.cli.{f'agents.{module}' if name in AGENTS else module}"))


def command_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """Build the parser of one command, with its example in the help."""
    parser = CommandParser(f"{PROG} {name}", **help_of(command))
    command.register(parser)
    if name not in WITHOUT_OUTPUT:
        add_output(parser)
    return parser


class CommandHelp(TypedDict):
    """The arguments of a parser that follow from a command's texts."""

    description: str
    epilog: str
    formatter_class: type[argparse.RawDescriptionHelpFormatter]
    allow_abbrev: bool


def help_of(command: Command) -> CommandHelp:
    """Return a parser's arguments for a command: what it does, and its example."""
    return CommandHelp(
        description=f"{command.HELP[0].upper()}{command.HELP[1:]}.",
        epilog="\n  ".join(("example:", *command.EXAMPLE.splitlines())),
        formatter_class=CheckedOptions,
        allow_abbrev=False,
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add -o/--output, which every command has that prints a result."""
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="text", help="text for people (default), or data")


class ActionsCommand:
    """A command with actions: each is a module in a folder, whose package has the texts and the actions' names."""

    def __init__(self, folder: str) -> None:
        package = importlib.import_module(f"cri_proxy.cli.{folder}")
        self.HELP: str = package.HELP
        self.EXAMPLE: str = package.EXAMPLE
        self.actions: Sequence[str] = package.ACTIONS
        self._folder = folder

    def register(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions, each with its own options."""
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name in self.actions:
            command = load_command(f"{self._folder}.{name}")
            action = actions.add_parser(name, help=command.HELP, **help_of(command))
            command.register(action)
            add_output(action)
            action.set_defaults(run=command.run)

    def run(self, args: argparse.Namespace) -> int:
        """Run the action that was named. Raises its errors."""
        status: int = args.run(args)
        return status


def overview() -> str:
    """Return the help of the program itself; loads every command for its line."""
    from cri_proxy.cli.render.columns import paragraph

    lines = [f"usage: {PROG} COMMAND [options]", "", *paragraph(DESCRIPTION, "")]
    for title, commands in GROUPS:
        lines += ["", f"{title}:"]
        for name in commands:
            lines += paragraph(load_command(name).HELP, " " * 16, first=f"  {name:<14}")
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
    command = load_command(name)
    try:
        args = command_parser(name, command).parse_args(rest)
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
