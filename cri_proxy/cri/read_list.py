"""Read the lists of a runtime of which items may be damaged, one by one, and tell ids that can be ids. Pure.

protobuf parses a message as a whole: one byte that is no UTF-8 in one annotation hides a node's containers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

# Runtimes name directories by their ids, so none is longer than a file's name (Linux, NAME_MAX).
MAX_ID_CHARACTERS: Final = 255

# As messages an item takes four times its bytes, and Python gives back only what no later allocation has settled in.
_PART_BYTES: Final = 1 << 14

M = TypeVar("M", bound=Message)
T = TypeVar("T")
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """The items of a list that can be read, and how many cannot."""

    readable: tuple[T, ...]
    unreadable: int = 0


def is_usable_id(text: str) -> bool:
    """Return whether this can be the id of a container or sandbox.

    >>> is_usable_id("5b0c1f"), is_usable_id(""), is_usable_id("a b"), is_usable_id("x" * 256)
    (True, False, False, False)
    """
    return 0 < len(text) <= MAX_ID_CHARACTERS and text.isascii() and text.isprintable() and " " not in text


def read_items(reply_kind: type[Message], kind: type[M], reply: bytes, take: Callable[[M], T]) -> Items[T]:
    """Return what ``take`` makes of the items of a list's reply, which are its field 1; of a damaged one what is left.

    It keeps nothing of an item: they are read in parts. An item without a usable id counts as unreadable. Raises
    DecodeError when the reply is no list of items at all.
    """
    name = reply_kind.DESCRIPTOR.fields_by_number[1].name
    taken, count = [], 0
    for part in _groups(reply):
        try:
            items = list(getattr(reply_kind.FromString(part), name))
        except DecodeError:
            items = [_read_item(kind, value) for number, value in _fields(part) if number == 1]
        count += len(items)
        taken += [take(item) for item in items if item is not None and is_usable_id(item.id)]
    return Items(tuple(taken), count - len(taken))


def _groups(reply: bytes) -> Iterator[bytes]:
    """Cut a reply into groups of whole fields. Raises DecodeError."""
    start = end = 0
    for field in _parts(reply):
        end += len(field)
        if end - start >= _PART_BYTES:
            yield reply[start:end]
            start = end
    yield reply[start:]


def _read_item(kind: type[M], data: bytes) -> M | None:
    try:
        return kind.FromString(data)
    except DecodeError:
        pass
    item = kind()
    try:
        for part in _parts(data):
            try:
                item.MergeFrom(kind.FromString(part))
            except DecodeError:
                continue  # this field only, or this entry of a map
    except DecodeError:
        return None
    return item


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of each field with a length. Raises DecodeError."""
    for part in _parts(data):
        tag, start = _varint(part, 0)
        if tag & 7 == 2:
            yield tag >> 3, part[_varint(part, start)[1] :]


def _parts(data: bytes) -> Iterator[bytes]:
    """Cut a message into its fields, each with its tag (protobuf.dev, "Encoding"). Raises DecodeError."""
    start = 0
    while start < len(data):
        tag, end = _varint(data, start)
        match tag & 7:
            case 0:
                _, end = _varint(data, end)
            case 1:
                end += 8
            case 2:
                size, end = _varint(data, end)
                end += size
            case 5:
                end += 4
            case kind:
                raise DecodeError(f"a field of wire type {kind}")
        if end > len(data) or not tag >> 3:
            raise DecodeError("a field that ends beyond the message, or without a number")
        yield data[start:end]
        start = end


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number at this place, and where it ends. Raises DecodeError."""
    value = 0
    for place, byte in enumerate(data[start : start + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, start + place + 1
    raise DecodeError("a number without an end")
