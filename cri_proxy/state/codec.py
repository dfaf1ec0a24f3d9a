"""Our frozen values as plain JSON-able data and back, driven by their type annotations.

Encoding: a dataclass is a mapping by field name, ``CpuSet`` and ``NodeSet`` are the kernel's list format, an
enum is its value, a tuple is a list. With ``sparse`` a field that has its default is left out, which keeps rows
short. Decoding is strict about types and tolerant of versions: unknown keys are skipped, an absent key takes
the field's default, and one without a default is damage.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

from sysfs.cpuset import CpuSetError, IdSet

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

T = TypeVar("T")


@dataclass(eq=False)
class CodecError(ValueError):
    """Data that is not the value it should be: ``where`` is a dotted path, '' for the whole."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where or 'value'}: {self.problem}"


@dataclass(frozen=True, slots=True)
class _Field:
    """What decoding needs to know of one dataclass field."""

    name: str
    type: object
    default: object  # MISSING when there is none


@cache
def _fields_of(cls: type) -> tuple[_Field, ...]:
    """The fields of a dataclass with their resolved types and defaults."""
    hints = get_type_hints(cls)
    return tuple(
        _Field(f.name, hints[f.name], f.default if f.default_factory is MISSING else f.default_factory())
        for f in fields(cls)
    )


def encode(value: object, *, sparse: bool = False) -> Plain:
    """The value as JSON-able data; ``sparse`` leaves out dataclass fields that have their default.

    Raises TypeError for a value that has no plain form (a programming error).

    >>> from sysfs.cpuset import CpuSet
    >>> encode((CpuSet.parse("0-3"), True))
    ['0-3', True]
    """
    match value:
        case IdSet():
            return str(value)
        case Enum():
            return encode(value.value)
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [encode(item, sparse=sparse) for item in value]
        case Mapping():
            return {str(key): encode(item, sparse=sparse) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value, sparse)
    raise TypeError(f"no plain form for {type(value).__name__}")


def _encode_fields(value: object, sparse: bool) -> dict[str, Plain]:
    """A dataclass instance as a mapping, in field order."""
    cls: type = type(value)
    plain: dict[str, Plain] = {}
    for field in _fields_of(cls):
        item = getattr(value, field.name)
        if not (sparse and item == field.default):
            plain[field.name] = encode(item, sparse=sparse)
    return plain


def decode(cls: type[T], plain: object) -> T:
    """The value of this dataclass or scalar type that ``encode`` gave. Raises CodecError.

    >>> from policies.base import ContainerKey
    >>> decode(ContainerKey, {"pod_uid": "u", "name": "c0", "from_a_later_version": 1})
    ContainerKey(pod_uid='u', name='c0')
    """
    value = _decode(cls, plain, "")
    if not isinstance(value, cls):
        raise CodecError("", f"expected {cls.__name__}, got {type(value).__name__}")
    return value


def _decode(wanted: object, plain: object, where: str) -> object:
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return _decode_union(get_args(wanted), plain, where)
    if origin is tuple:
        return _decode_tuple(get_args(wanted), plain, where)
    if not isinstance(wanted, type):
        raise TypeError(f"{where}: no decoder for {wanted!r}")
    if is_dataclass(wanted) and not issubclass(wanted, IdSet):
        return _decode_fields(wanted, plain, where)
    return _decode_scalar(wanted, plain, where)


def _decode_fields(cls: type, plain: object, where: str) -> object:
    if not isinstance(plain, Mapping):
        raise CodecError(where, f"expected a mapping for {cls.__name__}, got {type(plain).__name__}")
    values: dict[str, object] = {}
    for field in _fields_of(cls):
        path = f"{where}.{field.name}" if where else field.name
        if field.name in plain:
            values[field.name] = _decode(field.type, plain[field.name], path)
        elif field.default is MISSING:
            raise CodecError(path, "is missing")
    built: object = cls(**values)
    return built


def _decode_tuple(args: tuple[object, ...], plain: object, where: str) -> tuple[object, ...]:
    if not isinstance(plain, list | tuple):
        raise CodecError(where, f"expected a list, got {type(plain).__name__}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if len(args) != len(plain):
        raise CodecError(where, f"expected {len(args)} items, got {len(plain)}")
    return tuple(_decode(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, plain, strict=True)))


def _decode_union(choices: tuple[object, ...], plain: object, where: str) -> object:
    """The first member of the union that takes the data."""
    problems: list[str] = []
    for choice in choices:
        try:
            return _decode(choice, plain, where)
        except CodecError as error:
            problems.append(error.problem)
    raise CodecError(where, "; ".join(problems))


def _decode_scalar(wanted: type, plain: object, where: str) -> object:
    """A set, an enum member, None, or a scalar of exactly this type (a JSON integer is a float as well)."""
    build: Callable[[str], object] | None = None
    if issubclass(wanted, IdSet):
        build = wanted.parse
    elif issubclass(wanted, Enum):
        build = wanted
    if build is not None and isinstance(plain, str):
        try:
            return build(plain)
        except (CpuSetError, ValueError) as error:
            raise CodecError(where, str(error)) from None
    if wanted is float and type(plain) is int:
        return float(plain)
    if type(plain) is wanted and wanted in (bool, int, float, str, NoneType):
        return plain
    raise CodecError(where, f"expected {wanted.__name__}, got {type(plain).__name__}")
