"""Encode frozen dataclasses as plain JSON-able data and decode them, driven by their type annotations.

A dataclass is a mapping by field name, ``CpuSet`` and ``NodeSet`` are the kernel's list format, an enum is its value, a
tuple is a list. Decoding is strict about types and tolerant of versions: unknown keys are skipped, an absent key takes
the field's default, and is an error where the field has none.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import cycle
from types import MappingProxyType, NoneType, UnionType
from typing import Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sysfs.cpuset import IdSet

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

T = TypeVar("T")

FLAT: Final = MappingProxyType({"is_flat": True})
"""Metadata of a field that holds a dataclass whose keys stand beside those of the dataclass around it."""

_Decoder = Callable[[object], object]
_SCALARS: tuple[type, ...] = (str, int, bool, float, NoneType)


@dataclass(eq=False)
class CodecError(ValueError):
    """Data that does not fit its type: ``where`` is a dotted path, '' for the whole."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where or 'value'}: {self.problem}"

    def inside(self, outer: str) -> "CodecError":
        """Return the same error as seen from the value around it."""
        dot = "." if self.where and not self.where.startswith("[") else ""
        return CodecError(f"{outer}{dot}{self.where}", self.problem)


@dataclass(frozen=True, slots=True)
class _Field:
    """A dataclass field; ``default`` is MISSING when there is none, ``is_flat`` as in ``FLAT``."""

    name: str
    type: Hashable
    default: object
    is_flat: bool


@cache
def _fields_of(cls: type) -> tuple[_Field, ...]:
    """Return the fields of a dataclass with their resolved types and defaults."""
    hints = get_type_hints(cls)
    found = []
    for f in fields(cls):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        found.append(_Field(f.name, hints[f.name], default, f.metadata == FLAT))
    return tuple(found)


def encode(value: object, *, sparse: bool = False) -> Plain:
    """Return the value as JSON-able data; ``sparse`` leaves out dataclass fields that have their default.

    Raises TypeError for a value that has no plain form (a programming error).

    >>> from sysfs.cpuset import CpuSet
    >>> encode((CpuSet.parse("0-3"), True))
    ['0-3', True]
    """
    match value:  # frequent ones first: a grant has a hundred values
        case tuple() | list():
            return [item if type(item) in _SCALARS else encode(item, sparse=sparse) for item in value]
        case IdSet():
            return str(value)
        # Before text and numbers, which many enums are.
        case Enum():
            return encode(value.value)
        case None | bool() | int() | float() | str():
            return value
    if is_dataclass(value) and not isinstance(value, type):
        return encode_fields(value, sparse=sparse)
    if isinstance(value, Mapping):
        return {str(key): encode(item, sparse=sparse) for key, item in value.items()}
    raise TypeError(f"no plain form for {type(value).__name__}")


def encode_fields(value: object, *, sparse: bool = False) -> dict[str, Plain]:
    """Return a dataclass instance as a mapping, in field order. See ``encode``."""
    cls: type = type(value)
    plain: dict[str, Plain] = {}
    for field in _fields_of(cls):
        item = getattr(value, field.name)
        if field.is_flat:
            plain |= encode_fields(item, sparse=sparse)
        # The default is often the very same object: identity is cheaper than a comparison.
        elif not (sparse and (item is field.default or item == field.default)):
            plain[field.name] = item if type(item) in _SCALARS else encode(item, sparse=sparse)
    return plain


def decode(cls: type[T], plain: object) -> T:
    """Return the value of this dataclass or scalar type from its encoded form. Raises CodecError.

    >>> from policies.base import ContainerKey
    >>> decode(ContainerKey, {"pod_uid": "u", "name": "c0", "from_a_later_version": 1})
    ContainerKey(pod_uid='u', name='c0')
    """
    wanted: type = cls
    value = _decoder(wanted)(plain)
    if not isinstance(value, cls):
        raise CodecError("", f"expected {cls.__name__}, got {type(value).__name__}")
    return value


@cache
def _decoder(wanted: Hashable) -> _Decoder:
    """Return the decoder of this annotation; built once per type."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return _union_decoder(get_args(wanted))
    if origin is tuple:
        return _tuple_decoder(get_args(wanted))
    if origin is Literal:
        return _choice_decoder(get_args(wanted))
    if not isinstance(wanted, type):
        raise TypeError(f"no decoder for {wanted!r}")
    if issubclass(wanted, IdSet):
        return _text_decoder(wanted, wanted.parse)
    if issubclass(wanted, Enum):
        return _text_decoder(wanted, wanted)
    return _fields_decoder(wanted) if is_dataclass(wanted) else _scalar_decoder(wanted)


def _fields_decoder(cls: type) -> _Decoder:
    plan = [(field, _decoder(field.type)) for field in _fields_of(cls)]

    def decode_fields(plain: object) -> object:
        if not isinstance(plain, Mapping):
            raise CodecError("", f"expected a mapping for {cls.__name__}, got {type(plain).__name__}")
        values: dict[str, object] = {}
        for field, decoder in plan:
            name = field.name
            if field.is_flat:
                values[name] = decoder(plain)
            elif name in plain:
                try:
                    values[name] = decoder(plain[name])
                except CodecError as error:
                    raise error.inside(name) from None
            elif field.default is MISSING:
                raise CodecError(name, "is missing")
        built: object = cls(**values)
        return built

    return decode_fields


def _tuple_decoder(kinds: tuple[Hashable, ...]) -> _Decoder:
    """Return a decoder of a list: of any length for ``tuple[X, ...]``, else of an item per type."""
    decoders, is_any_length = [_decoder(kind) for kind in kinds if kind is not Ellipsis], kinds[1:] == (Ellipsis,)

    def decode_tuple(plain: object) -> object:
        if not isinstance(plain, list | tuple) or not (is_any_length or len(plain) == len(decoders)):
            wanted = f", got {type(plain).__name__}" if is_any_length else f" of {len(decoders)} items"
            raise CodecError("", f"expected a list{wanted}")
        values = []
        for i, (decoder, item) in enumerate(zip(cycle(decoders), plain, strict=False)):
            try:
                values.append(decoder(item))
            except CodecError as error:
                raise error.inside(f"[{i}]") from None
        return tuple(values)

    return decode_tuple


def _union_decoder(kinds: tuple[Hashable, ...]) -> _Decoder:
    """Return a decoder that tries the members of the union in order."""
    decoders = [_decoder(kind) for kind in kinds]

    def decode_union(plain: object) -> object:
        problems: list[str] = []
        for decoder in decoders:
            try:
                return decoder(plain)
            except CodecError as error:
                problems.append(str(error) if error.where else error.problem)
        raise CodecError("", "; ".join(problems))

    return decode_union


def _text_decoder(cls: type, build: Callable[[str], object]) -> _Decoder:
    """Return a decoder of a string: a set in list format, an enum's value."""

    def decode_text(plain: object) -> object:
        if not isinstance(plain, str):
            raise CodecError("", f"expected {cls.__name__}, got {type(plain).__name__}")
        try:
            return build(plain)
        except ValueError as error:
            raise CodecError("", str(error)) from None

    return decode_text


def _choice_decoder(choices: tuple[str, ...]) -> _Decoder:
    def decode_choice(plain: object) -> object:
        if plain not in choices:
            raise CodecError("", f"expected one of {', '.join(choices)}, got {plain!r}")
        return plain

    return decode_choice


def _scalar_decoder(cls: type) -> _Decoder:
    """Return a decoder of exactly this scalar type: True is no number. A JSON integer is a float as well."""
    if cls not in _SCALARS:
        raise TypeError(f"no decoder for {cls!r}")

    def decode_scalar(plain: object) -> object:
        if type(plain) is cls:
            return plain
        if cls is float and type(plain) is int:
            return float(plain)
        raise CodecError("", f"expected {cls.__name__}, got {type(plain).__name__}")

    return decode_scalar
