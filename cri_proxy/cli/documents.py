"""Answer the YAML documents of a file one by one: the shape of all commands that take FILE or ``-``.

A document that cannot be answered has its error as its answer, and the others go on. The exit status is 1 when any
answer is a no. A document's ``options:`` holds options by their long names; the command line beats them.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.cli.arguments import argument
from cri_proxy.cli.output import emit
from cri_proxy.codec import encode
from cri_proxy.errors import CommandFailed, CriProxyError
from cri_proxy.foreign_text import shorten
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.errors import PolicyBaseError
from sysfs.documents.forms import one_of, truth
from sysfs.errors import SysfsBaseError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
E = TypeVar("E", bound=StrEnum)

OPTIONS_KEY = "options"
# A listing of 65,535 hints, all that 16 nodes have, is 850,000 keys and values.
_DIALECT = Dialect(max_bytes=64 << 20, max_depth=40, max_nodes=4_000_000, has_aliases=True)

# Such a line begins a document wherever it stands, in a quoted text too (YAML 1.1, 4.3.5), so that the text can be cut
# before it is parsed: what is not YAML in one document does not hide the next.
_MARK = re.compile(r"^(?:---(?=\s|$)|%).*$", re.MULTILINE)
# What may stand between a directive (%YAML 1.2) and the document that it is for.
_NOTHING = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?\n)+")
_EMPTY = "the document is empty: write one, or remove the --- above it"


@dataclass(frozen=True, slots=True)
class DocumentOption(Generic[T_co]):
    """An option that the command line and a document's ``options:`` can set.

    ``read`` makes the value of a text and raises ValueError or PolicyBaseError; lists and mappings are written ``a,b``
    and ``a=1,b=2``. A flag is ``--name`` or ``--no-name`` on the command line; its ``read`` gets ``true`` or ``false``.
    """

    name: str
    read: Callable[[str], T_co]
    default: T_co
    text: str
    metavar: str = ""
    is_flag: bool = False

    @property
    def dest(self) -> str:
        """The attribute of the parsed command line."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a file: its root, its ``options:``, and the parsed command line."""

    root: YamlField
    options: Mapping[str, YamlField]
    args: argparse.Namespace

    def option(self, option: DocumentOption[T]) -> T:
        """Return the value of the command line, else of the document, else the default. Raises DocumentError."""
        given: T | None = getattr(self.args, option.dest)
        if given is not None:
            return given
        field = self.options.get(option.name)
        if field is None or field.is_null:
            return option.default
        try:
            return option.read(_as_text(field, option.name))
        except (ValueError, PolicyBaseError) as error:
            raise field.refuse(f"{option.name}: {error}") from None


class _Once(argparse.Action):
    """Store a list; a second one would replace the first in silence."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        """Store the value."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "given twice: put all into one, with commas between them")
        setattr(namespace, self.dest, values)


def flag(name: str, text: str) -> DocumentOption[bool]:
    """Return an option that is true or false, by default false."""
    return DocumentOption(name, truth, False, text, is_flag=True)


def choice(name: str, default: E, text: str) -> DocumentOption[E]:
    """Return an option whose value is one of the words of the default's kind."""
    kind = type(default)
    return DocumentOption(name, one_of(kind), default, text, "|".join(kind))


@dataclass(frozen=True, slots=True)
class _Failure:
    error: str


@dataclass(frozen=True, slots=True)
class DocumentCommand(Generic[A]):
    """A command that answers each document of its file, and how its answers are printed.

    ``is_no``: the answer is a no, which the exit status tells. ``plain`` makes of an answer what JSON and YAML
    show. ``repaired`` gets the text of the file before it is parsed. ``others`` are options of other commands that a
    document may have.
    """

    options: Sequence[DocumentOption[object]]
    answer: Callable[[Document], A]
    text: Callable[[A], str]
    is_no: Callable[[A], bool] = lambda _: False
    plain: Callable[[A], object] = encode
    repaired: Callable[[str], str] = str
    others: Sequence[DocumentOption[object]] = ()

    def register(self, parser: argparse.ArgumentParser) -> None:
        """Add FILE and the options of this command."""
        parser.add_argument("file", metavar="FILE", help="YAML or JSON, one or more documents; - is standard input")
        for option in self.options:
            flag = f"--{option.name}"
            if option.is_flag:
                parser.add_argument(flag, dest=option.dest, action=argparse.BooleanOptionalAction, help=option.text)
            else:
                kind, action = argument(option.read), _Once if option.metavar.endswith("…") else "store"
                parser.add_argument(
                    flag, dest=option.dest, type=kind, action=action, metavar=option.metavar or None, help=option.text
                )

    def run(self, args: argparse.Namespace) -> int:
        """Answer every document of ``args.file`` and print the answers; return 1 when any is a no, else 0.

        A single document has a single answer; several have a list. Raises CommandFailed, for a single document that
        cannot be answered too.
        """
        answers = [self._answered(found) for found in self.documents(args)]
        if not answers:
            raise CommandFailed(f"{args.file}: no document in it")
        if len(answers) > 1:
            emit(tuple(answers), args.output, self._texts, plain=self._plains)
        elif isinstance(only := answers[0], _Failure):
            raise CommandFailed(only.error)
        else:
            emit(only, args.output, self.text, plain=self.plain)
        return int(any(isinstance(found, _Failure) or self.is_no(found) for found in answers))

    def documents(self, args: argparse.Namespace) -> Iterator[Document | DocumentError]:
        """Yield every document of ``args.file``, or its error; ``-`` is standard input.

        Raises DocumentError for a file that cannot be read.
        """
        names = [option.name for option in (*self.options, *self.others)]
        text = self.repaired(YamlField.read_text(args.file, _DIALECT.max_bytes))
        empty: list[int] = []
        for first_line, part in _parts(text):
            found = list(_documents(args.file, part, first_line, names, args))
            # An answer's place says which document it is for, so an empty one has its own. What is empty after the last
            # one ends the file.
            if found:
                yield from (DocumentError(args.file, line, _EMPTY) for line in empty)
                yield from found
                empty = []
            elif part.startswith(("---", "%")):
                empty.append(first_line)

    def _answered(self, found: Document | DocumentError) -> A | _Failure:
        if isinstance(found, DocumentError):
            return _Failure(shorten(str(found)))
        try:
            return self.answer(found)
        except DocumentError as error:
            return _Failure(shorten(str(error)))
        except (CriProxyError, PolicyBaseError, SysfsBaseError) as error:
            return _Failure(shorten(str(found.root.refuse(str(error)))))

    def _texts(self, answers: Sequence[A | _Failure]) -> str:
        return "\n\n".join(f"error: {a.error}" if isinstance(a, _Failure) else self.text(a) for a in answers)

    def _plains(self, answers: Sequence[A | _Failure]) -> list[object]:
        return [{"error": a.error} if isinstance(a, _Failure) else self.plain(a) for a in answers]


def _documents(
    file: str, part: str, first_line: int, names: Sequence[str], args: argparse.Namespace
) -> Iterator[Document | DocumentError]:
    """Yield the documents of a part of a file, mostly one; none where nothing stands in it."""
    try:
        for root in YamlField.documents(part, file, _DIALECT, first_line):
            yield Document(root, _options_of(root, names), args)
    except DocumentError as error:
        yield error


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text of each document with the line on which it begins."""
    start, line = 0, 1
    for end in (*_starts(text), len(text)):
        if start < end:
            yield line, text[start:end]
        line += text.count("\n", start, end)
        start = end


def _starts(text: str) -> Iterator[int]:
    """Yield where documents begin: at their directives, else at ``---``."""
    directive = end = -1
    for mark in _MARK.finditer(text):
        is_next = directive >= 0 and _NOTHING.fullmatch(text, end, mark.start()) is not None
        if not mark[0].startswith("%"):
            yield directive if is_next else mark.start()
            directive = -1
            continue
        directive, end = directive if is_next else mark.start(), mark.end()


def _options_of(root: YamlField, names: Sequence[str]) -> Mapping[str, YamlField]:
    field = root.entries("the document").get(OPTIONS_KEY) if root.is_mapping else None
    return {} if field is None or field.is_null else field.mapping(names, OPTIONS_KEY)


def _as_text(field: YamlField, what: str) -> str:
    """Return the value as the command line writes it."""
    if field.is_mapping:
        return ",".join(f"{key}={item.text(what)}" for key, item in field.entries(what).items())
    return ",".join(item.text(what) for item in field.listed(what))
