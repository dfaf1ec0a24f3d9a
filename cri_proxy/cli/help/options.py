"""The options and arguments of each command, as its parser has them, for what is made of them: scripts, man pages."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cri_proxy.cli.help.parser import command_parser, load_command

_FILE: Final = re.compile(r"(?<!://)\b(FILE|PATH|DIR|DIRECTORY|SPEC)\b")
_POD: Final = re.compile(r"\bPOD\b")
_CHOICES: Final = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")


class Takes(StrEnum):
    """The words that a shell completes after an option, or as an argument."""

    NOTHING = "nothing"  # a flag
    WORDS = "words"  # one of a few words
    FILES = "files"
    CONTAINERS = "containers"  # names of pods and containers that are running
    TEXT = "text"  # anything: nothing to complete


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option by its ``names``, or an argument, which has none. ``value`` is what stands for its value in the help.

    ``words`` are all that it takes, where it takes one of a few.
    """

    names: tuple[str, ...]
    text: str
    takes: Takes
    value: str = ""
    words: tuple[str, ...] = ()


def options_of(name: str) -> tuple[CommandOption, ...]:
    """Return the options and arguments of a command or action, in the order of its help."""
    return tuple(_options(command_parser(name, load_command(name))))


def _options(parser: argparse.ArgumentParser) -> Iterator[CommandOption]:
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        text = formatter._expand_help(action) if action.help else ""
        value = formatter._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
        takes, words = _taken(action)
        yield CommandOption(tuple(action.option_strings), text, takes, value, words)


def _taken(action: argparse.Action) -> tuple[Takes, tuple[str, ...]]:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if action.nargs == 0:
        return Takes.NOTHING, ()
    if action.choices is not None:
        return Takes.WORDS, tuple(map(str, action.choices))
    bare = metavar.strip("[]")
    if _CHOICES.fullmatch(bare):
        return Takes.WORDS, tuple(bare.split("|"))
    if _POD.search(metavar) and not action.option_strings:
        return Takes.CONTAINERS, ()
    return (Takes.FILES if _FILE.search(metavar) else Takes.TEXT), ()
