"""The forms that values have in documents: texts, numbers, PCI addresses, lists, and mappings with any keys."""

import json
import re
from collections.abc import Callable, Hashable, Iterable
from math import inf
from typing import Final, TypeVar

from sysfs.cpuset import CpuSet, NodeSet
from sysfs.documents.table import Form, Shape, any_shape, or_null, plain
from sysfs.documents.value import DocumentValue
from sysfs.known_words import none_of, short_repr

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
F = TypeVar("F", bound=DocumentValue)
W = TypeVar("W", bound=str)

MAX_NODE: Final = 1023  # CONFIG_NODES_SHIFT=10, the most that kernels are built for
_MAX_DIGITS: Final = 18  # always fits into 64 bits
_TRUTHS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def scalar_shape() -> Shape:
    """Return the shape of a single value: YAML's words, numbers and true and false are all texts here, as null is."""
    return {"type": ["string", "number", "boolean", "null"]}


def list_shape(item: Callable[[], Shape] = scalar_shape) -> Shape:
    """Return the shape of a list, or of null, which is an empty one."""
    return {"type": ["array", "null"], "items": item()}


def form(
    read: Callable[..., T], write: Callable[..., object] = plain, shape: Callable[[], Shape] = any_shape
) -> Form[T]:
    """Return the form that these functions make, whatever a document is read within."""
    return Form(lambda field, what, _=None: read(field, what), write, shape)


def scalar(parse: Callable[[str], T], write: Callable[..., object] = plain) -> Form[T]:
    """Return the form of a single value; ``parse`` raises ValueError."""
    return Form(lambda field, what, _=None: field.parsed(what, parse), write, scalar_shape)


def truth(text: str) -> bool:
    """Return true or false, as YAML 1.1 writes them. Raises ValueError.

    >>> truth("true"), truth("No")
    (True, False)
    """
    word = text.strip().lower()
    if word not in _TRUTHS:
        raise ValueError(f"expected true or false, got {short_repr(text)}")
    return _TRUTHS[word]


TEXT: Final = form(DocumentValue.text, shape=scalar_shape)
TRUTH: Final = scalar(truth)
TEXT_OR_JSON: Final = form(lambda field, what: field.text(what) if field.is_scalar else json.dumps(field.plain()))
"""Of a text whose JSON may be written out, as in annotations of pods."""
FIELD: Final = form(lambda field, _: field)
"""Of a value that is looked at later."""


def each(item: Form[T]) -> Form[tuple[T, ...]]:
    """Return the form of a list; null is an empty one. Items without a line are named by their place."""

    def read(field: DocumentValue, what: str, within: object = None) -> tuple[T, ...]:
        parts = enumerate(field.items(what))
        return tuple(item.read(part, what if part.line else f"{what}[{i}]", within) for i, part in parts)

    return Form(read, lambda values: [item.write(value) for value in values], lambda: list_shape(item.shape))


def or_none(item: Form[T]) -> Form[T | None]:
    """Return the form of a value that null stands for where there is none."""
    return Form(
        lambda field, what, within=None: None if field.is_null else item.read(field, what, within),
        lambda value: None if value is None else item.write(value),
        lambda: or_null(item.shape()),
    )


def by_name(item: Form[T]) -> Form[dict[str, T]]:
    """Return the form of a mapping with any keys."""
    return Form(
        lambda field, what, within=None: {
            key: item.read(value, f"{what}.{key}", within) for key, value in field.entries(what).items()
        },
        lambda values: {key: item.write(value) for key, value in values.items()},
        lambda: {"type": "object", "additionalProperties": item.shape()},
    )


def integer(least: int, most: int) -> Form[int]:
    """Return the form of a whole number within bounds, which is written as a number."""

    def read(field: DocumentValue, what: str) -> int:
        number = field.plain()
        # true is an int to Python.
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise field.refuse(f"{what}: expected a whole number from {least} to {most}, got {field.shown()}")
        return number

    return form(read, shape=lambda: {"type": "integer", "minimum": least, "maximum": most})


def one_of(words: Iterable[W]) -> Callable[[str], W]:
    """Return a parser of one of these words; an empty one among them, a default, is not offered.

    >>> one_of(["zero", "mirror"])("mirror")
    'mirror'
    """
    known = {str(word): word for word in words}

    def parse(text: str) -> W:
        if text not in known:
            raise ValueError(none_of(text, filter(None, known)))
        return known[text]

    return parse


def matching(pattern: str, expected: str) -> Callable[[str], str]:
    """Return a parser of texts that match this expression as a whole.

    >>> matching("/.*", "a path")("/dev")
    '/dev'
    """

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}, got {short_repr(text)}")
        return text

    return parse


def between(least: int, most: float = inf, noun: str = "number") -> Callable[[str], int]:
    """Return a parser of numbers within bounds; a number has 18 digits at most.

    >>> between(1, 9)("8")
    8
    """

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else -1
        if least <= number <= most:
            return number if text[0] != "0" else int(without_leading_zeros(text))
        bounds = f"from {least}" if most == inf else f"from {least} to {most}"
        if text.isdigit() and len(text) > _MAX_DIGITS:
            bounds = f"of at most {_MAX_DIGITS} digits"
        raise ValueError(f"expected a {noun} {bounds}, got {short_repr(text)}")

    return parse


whole: Final = between(0, noun="whole number")
node_number: Final = between(0, MAX_NODE, "node")


def by_key(field: F, what: str, parse: Callable[[str], H]) -> dict[H, F]:
    """Return the values of a mapping by what its keys are read as. Raises DocumentError."""
    found: dict[H, F] = {}
    for text, value in field.entries(what).items():
        try:
            key = parse(text)
        except ValueError as error:
            raise value.refuse(f"{what}: {error}") from None
        if key in found:
            raise value.refuse(f"{what}: {text!r} stands twice")
        found[key] = value
    return found


def node_mask(field: DocumentValue, what: str, machine: int) -> int:
    """Return a list of nodes as a mask; every one is a node of the machine, a mask. Raises DocumentError."""
    mask = NodeSet.of(item.parsed(what, node_number) for item in field.items(what)).mask
    if mask & ~machine:
        raise field.refuse(f"{what}: there is no node {NodeSet(mask & ~machine)}; the nodes are {NodeSet(machine)}")
    return mask


NODES: Final = Form(node_mask, lambda mask: list(NodeSet(mask)), list_shape)
"""Of nodes within a machine."""


def cpu_list(field: DocumentValue, what: str) -> CpuSet:
    """Return a CPU list, written as ``0-3,8``, a number or a list of these; null is an empty one."""
    return CpuSet.of_masks(item.parsed(what, CpuSet.parse).mask for item in field.listed(what))


def without_leading_zeros(number: str) -> str:
    """Return the text of a number; raise ValueError where it begins with zeros: YAML 1.1 reads ``010`` as 8, 1.2 as 10.

    >>> without_leading_zeros("0"), without_leading_zeros("10"), without_leading_zeros("0.5")
    ('0', '10', '0.5')
    """
    if len(number) > 1 and number[0] == "0" and number[1].isdigit():
        raise ValueError(f"{short_repr(number)} may be meant as an octal number: write it without leading zeros")
    return number
