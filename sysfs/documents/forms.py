"""The forms that values have in documents: texts, numbers, PCI addresses, lists, and mappings with any keys."""

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from sysfs.cpuset import CpuSet, NodeSet
from sysfs.documents.table import Form
from sysfs.documents.value import DocumentValue, short_repr
from sysfs.known_words import none_of

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
F = TypeVar("F", bound=DocumentValue)

MAX_NODE: Final = 1023  # CONFIG_NODES_SHIFT=10, the most that kernels are built for
_MAX_DIGITS: Final = 18


def plain(value: object) -> object:
    """Return a value as JSON has it: sets and tuples are lists.

    >>> plain({"a": (1, 2)})
    {'a': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


@dataclass(frozen=True, slots=True)
class Within(Generic[T]):
    """A form that these functions make; ``read`` gets a field, its name, and what the document is read within."""

    read: Callable[..., T]
    write: Callable[..., object] = plain


def form(read: Callable[..., T], write: Callable[..., object] = plain) -> Within[T]:
    """Return the form that these functions make, whatever a document is read within."""
    return Within(lambda field, what, _=None: read(field, what), write)


def scalar(parse: Callable[[str], T], write: Callable[..., object] = plain) -> Within[T]:
    """Return the form of a single value; ``parse`` raises ValueError."""
    return Within(lambda field, what, _=None: field.parsed(what, parse), write)


TEXT: Final = form(DocumentValue.text)
TRUTH: Final = form(DocumentValue.truth)
TEXT_OR_JSON: Final = form(lambda field, what: field.text(what) if field.is_scalar else json.dumps(field.plain()))
"""Of a text whose JSON may be written out, as in annotations of pods."""
FIELD: Final = form(lambda field, _: field)
"""Of a value that is looked at later."""


def each(item: Form[T]) -> Within[tuple[T, ...]]:
    """Return the form of a list; null is an empty one."""
    return Within(
        lambda field, what, within=None: tuple(
            item.read(part, part.name_in(what, i), within) for i, part in enumerate(field.items(what))
        ),
        lambda values: [item.write(value) for value in values],
    )


def by_name(item: Form[T]) -> Within[dict[str, T]]:
    """Return the form of a mapping with any keys."""
    return Within(
        lambda field, what, within=None: {
            key: item.read(value, f"{what}.{key}", within) for key, value in field.entries(what).items()
        },
        lambda values: {key: item.write(value) for key, value in values.items()},
    )


def integer(least: int, most: int) -> Within[int]:
    """Return the form of a whole number within bounds, which is written as a number."""

    def read(field: DocumentValue, what: str) -> int:
        number = field.plain()
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise field.refuse(f"{what}: expected a whole number from {least} to {most}, got {field.shown()}")
        return number

    return form(read)


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of one of these words.

    >>> one_of(["zero", "mirror"])("mirror")
    'mirror'
    """

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(none_of(text, words))
        return text

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


def whole(text: str) -> int:
    """Return a number that is not negative. Raises ValueError.

    >>> whole("8")
    8
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number from 0, got {short_repr(text)}")
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"expected a whole number of at most {_MAX_DIGITS} digits, got {short_repr(text)}")
    return int(without_leading_zeros(text))


def node_number(text: str) -> int:
    """Return the number of a NUMA node. Raises ValueError."""
    node = whole(text)
    if node > MAX_NODE:
        raise ValueError(f"expected a node from 0 to {MAX_NODE}, got {node}")
    return node


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


NODES: Final = Within(node_mask, lambda mask: list(NodeSet(mask)))
"""Of nodes within a machine."""


def cpu_list(field: DocumentValue, what: str) -> CpuSet:
    """Return a CPU list, written as ``0-3,8``, a number or a list of these; null is an empty one."""
    items = [field] if field.is_scalar and not field.is_null else field.items(what)
    return CpuSet.of_masks(item.parsed(what, CpuSet.parse).mask for item in items)


def names(field: DocumentValue, what: str) -> tuple[str, ...]:
    """Return a list of names without doubles. Raises DocumentError."""
    found: list[str] = []
    for item in field.items(what):
        name = item.text(what)
        if name in found:
            raise item.refuse(f"{what}: {name!r} stands twice")
        found.append(name)
    return tuple(found)


def without_leading_zeros(number: str) -> str:
    """Return the text of a number; raise ValueError where it begins with zeros: YAML 1.1 reads ``010`` as 8, 1.2 as 10.

    >>> without_leading_zeros("0"), without_leading_zeros("10"), without_leading_zeros("0.5")
    ('0', '10', '0.5')
    """
    if len(number) > 1 and number[0] == "0" and number[1].isdigit():
        raise ValueError(f"{short_repr(number)} may be meant as an octal number: write it without leading zeros")
    return number
