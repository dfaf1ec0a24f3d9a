"""Write the man pages and the completion scripts below a root: man_pages.py ROOT.

Both are made of the parsers, with the texts of ``--help``: the same sources give the same files, for any terminal. The
zsh of Debian and that of Fedora and SUSE look in different directories, so it is in both.
"""

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cri_proxy.cli.help.commands import COMMANDS, GROUPS, PROG, ROWS, CommandRow
from cri_proxy.cli.help.options import CommandOption, options_of
from cri_proxy.cli.help.parser import load_command
from cri_proxy.cli.help.scripts import script
from cri_proxy.cli.main import DESCRIPTION
from cri_proxy.version import version

SCRIPTS = {
    "usr/share/bash-completion/completions/cri-proxy": "bash",
    "usr/share/zsh/vendor-completions/_cri-proxy": "zsh",
    "usr/share/zsh/site-functions/_cri-proxy": "zsh",
    "usr/share/fish/vendor_completions.d/cri-proxy.fish": "fish",
}
STATUSES = (
    ("0", "Good."),
    ("1", "A clear no: a pod that is refused, a configuration that is not valid, a daemon that does not answer."),
    ("2", "Wrong usage."),
)


def escaped(text: str) -> str:
    """Return a text for roff: no dash breaks a word or becomes another, no line is a request."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)


def title(name: str) -> str:
    """Return the name of a page, as git has it: cri-proxy-gpu-score."""
    return "-".join((PROG, *name.split())) if name else PROG


def page(name: str) -> str:
    """Return the page of a command or action, or with an empty name that of the program."""
    row = ROWS.get(name)
    text = row.text if row is not None else DESCRIPTION.rstrip(".").lower()
    lines = [
        f'.TH {escaped(title(name)).upper()} 1 "" "cri\\-proxy {escaped(version())}" "cri\\-proxy"',
        ".SH NAME",
        f"{escaped(title(name))} \\- {escaped(text)}",
        *(_of_command(row) if row is not None else _of_program()),
        ".SH EXIT STATUS",
        *(line for status, meaning in STATUSES for line in (".TP", f".B {status}", escaped(meaning))),
        ".SH SEE ALSO",
        *_others(name),
    ]
    return "\n".join(lines) + "\n"


def _of_program() -> Iterator[str]:
    yield from (".SH SYNOPSIS", ".B cri\\-proxy", "COMMAND [options]", ".SH COMMANDS")
    for group, rows in GROUPS.items():
        yield f".SS {escaped(group)}"
        for row in rows:
            yield from (".TP", f".B {escaped(row.name)}", escaped(row.text))
    yield from (".SH OPTIONS", ".TP", ".B \\-h, \\-\\-help", "The list of commands; after a command, its help.")
    yield from (".TP", ".B \\-\\-version", "The version.")


def _of_command(row: CommandRow) -> Iterator[str]:
    options = options_of(row.name)
    yield from (".SH SYNOPSIS", f".B cri\\-proxy {escaped(row.name)}", escaped(_synopsis(row, options)))
    yield from (".SH DESCRIPTION", f"{escaped(row.text[0].upper() + row.text[1:])}.")
    if row.actions:
        yield ".SH ACTIONS"
        for name, action in row.actions.items():
            yield from (".TP", f".B {escaped(name)}", escaped(action.text))
    yield ".SH OPTIONS"
    for option in options:
        value = f" \\fI{escaped(option.value)}\\fR" if option.value else ""
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names)
        yield from (".TP", f"{names}{value}".strip(), escaped(" ".join(option.text.split())))
    yield from (".SH EXAMPLES", ".EX", escaped(load_command(row.name).EXAMPLE), ".EE")


def _synopsis(row: CommandRow, options: tuple[CommandOption, ...]) -> str:
    arguments = [option.value for option in options if not option.names]
    return " ".join([*(["ACTION"] if row.actions else []), "[options]", *arguments])


def _others(name: str) -> list[str]:
    """Return the lines about related pages: the program's, the command's, its actions', and where the rest is."""
    others = [""] if name else list(COMMANDS)
    if name in ROWS:
        command = name.split(maxsplit=1)[0]
        near = (command, *(action.name for action in ROWS[command].actions.values()))
        others += [each for each in near if each != name]
    pages = [f".BR {escaped(title(other))} (1)" for other in others]
    return [*(f"{each} ," for each in pages[:-1]), pages[-1], ".PP", "/usr/share/doc/cri\\-proxy/README.md"]


def write(root: Path) -> None:
    """Write all of it."""
    for name, shell in SCRIPTS.items():
        _place(root / name, f"{script(shell)}\n".encode())
    for command in ("", *ROWS):
        _place(
            root / "usr/share/man/man1" / f"{title(command)}.1.gz",
            gzip.compress(page(command).encode(), compresslevel=9, mtime=0),
        )


def _place(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
