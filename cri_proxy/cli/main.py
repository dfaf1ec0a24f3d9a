"""The entry point: list commands, import only the named one, parse its options, run it, map errors to exit statuses."""

import argparse
import sys
from collections.abc import Sequence

from cri_proxy.cli.help.commands import COMMANDS, GROUPS, PROG, ROWS
from cri_proxy.cli.help.parser import EXIT_USAGE, Command, command_parser, load_command
from cri_proxy.daemon.memory import share_dataclass_methods
from cri_proxy.errors import COMMAND_LINE, CommandFailed, ConfigError, CriProxyError
from cri_proxy.foreign_text import shorten, visible
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError

DESCRIPTION = "Pins the containers of a Kubernetes node to CPUs and memory, as a proxy in front of the runtime."
# 128 + the signal's number, as a shell reports it.
EXIT_INTERRUPTED = 130


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
