"""``Table``: the keys of a mapping, one row each, from which it is read, written back and documented. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from operator import attrgetter
from typing import Final, Generic, TypeVar, cast

from sysfs.documents.value import DocumentValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound=DocumentValue)

_NOTHING: Final = object()
_ROW: Final = "row"


def plain(value: object) -> object:
    """Return a value as JSON has it: sets and tuples are lists.

    >>> plain({"a": (1, 2)})
    {'a': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


Shape = Mapping[str, object]
"""A JSON schema (draft 07), or a part of one."""


def any_shape() -> Shape:
    """Return the shape of a value about which nothing is said."""
    return {}


class Form(Generic[T_co]):
    """How a value stands in a document."""

    def __init__(
        self,
        read: Callable[..., T_co],
        write: Callable[..., object] = plain,
        shape: Callable[[], Shape] = any_shape,
    ) -> None:
        """``read`` makes the value of a field, given its name and what the whole document is read within.

        It raises the error of the field. ``write`` makes what JSON has of a value. ``shape`` is what is not refused for
        being a list, a mapping or a scalar, or for its keys; more may be refused for what it says.
        """
        self.read = read
        self.write = write
        self.shape = shape


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key of a mapping: ``text`` explains it, ``also`` are its other names.

    ``missing`` is the problem where it is absent; without one, the default of the value's class counts then. Null is as
    good as absent, unless ``takes_null``. ``field`` leads to it from the value, with dots; default: the key.
    A value equal to ``unwritten`` is not written.
    """

    key: str
    form: Form[object]
    text: str = ""
    missing: str = ""
    also: tuple[str, ...] = ()
    field: str = ""
    takes_null: bool = False
    unwritten: object = _NOTHING

    @property
    def path(self) -> str:
        """Where the value has it."""
        return self.field or self.key.replace("-", "_")


def keyed(form: Form[T], text: str, default: object = MISSING, *, name: str = "", missing: str = "") -> T:
    """Return a field of a dataclass with the row of its key, which has the field's name unless it has another ``name``.

    One without a default needs ``missing``, as in ``KeyRow``.
    """
    return cast("T", field(default=default, metadata={_ROW: KeyRow(name, form, text, missing)}))


def rows_of(cls: type) -> tuple[KeyRow, ...]:
    """Return the rows of a dataclass, in the order of its fields; see ``keyed``."""
    found = [(each.name, each.metadata[_ROW]) for each in fields(cls) if _ROW in each.metadata]
    return tuple(replace(row, key=row.key or name, field=name) for name, row in found)


class Table(Form[T]):
    """The rows of a mapping, and what makes a value of theirs. A table is a form, so that tables nest."""

    write: Callable[..., dict[str, object]]

    def __init__(
        self, make: Callable[..., T], *rows: KeyRow, name: str = "", ignored: tuple[str, ...] | None = ()
    ) -> None:
        """``make`` gets what was read, by the last name of a row's path; a ValueError of it is the mapping's problem.

        A dataclass without ``rows`` has those of its fields.
        ``name`` is the mapping's own in errors, whose keys then stand alone (``a container: name is missing``).
        ``ignored`` are keys without a use; None: any.
        """
        super().__init__(self._read, self._write, self._shape)
        self.rows = rows = rows or rows_of(cast("type", make))
        self._make = make
        self._name = name
        self._readers = {row.key: (row.path.rpartition(".")[2], row.form.read) for row in rows}
        self._other_names = {name: row.key for row in rows for name in row.also}
        self._nullable = {row.key for row in rows if row.takes_null}
        self._missing = [(row.key, row.missing) for row in rows if row.missing]
        self.keys = dict.fromkeys([*(name for row in rows for name in (*row.also, row.key)), *(ignored or ())])
        self._takes_any_key = ignored is None
        self._ignored = ignored or ()

    def _read(self, field: DocumentValue, what: str = "", within: object = None) -> T:
        values = self._values(self.fields(field, what), what, within)
        try:
            return self._make(**values)
        except ValueError as error:
            raise field.refuse(f"{self._name or what}: {error}") from None

    def fields(self, field: F, what: str = "", beside: Mapping[str, F] | None = None) -> dict[str, F]:
        """Return what stands there by key, whatever name it has. Raises the field's error for a wrong or missing key.

        ``beside`` are values of a mapping of its own, which may have other keys.
        """
        name = self._name or what
        given = field.entries(name) if self._takes_any_key else field.mapping(self.keys, name)
        if beside:
            given = {**beside, **given}
        if not self._other_names.keys().isdisjoint(given):
            for other, key in self._other_names.items():
                # A key with null leaves its other name in force: null is as good as absent.
                if other in given and (key not in given or given[key].is_null):
                    given[key] = given[other]
        found = {
            key: value
            for key in self._readers
            if (value := given.get(key)) is not None and (key in self._nullable or not value.is_null)
        }
        for key, problem in self._missing:
            if key not in found:
                raise field.refuse(f"{name}: {problem}")
        return found

    def made(self, fields: Mapping[str, DocumentValue], what: str = "", within: object = None, **more: object) -> T:
        """Return the value of these fields, read in the order of the rows; ``more`` is known already."""
        return self._make(**self._values(fields, what, within), **more)

    def _values(self, fields: Mapping[str, DocumentValue], what: str, within: object) -> dict[str, object]:
        lead = f"{what}." if what and not self._name else ""
        found: dict[str, object] = {}
        for key, value in fields.items():
            name, read = self._readers[key]
            found[name] = read(value, lead + key, within)
        return found

    def _write(self, value: T) -> dict[str, object]:
        found = [(row, attrgetter(row.path)(value)) for row in self.rows]
        return {row.key: row.form.write(item) for row, item in found if item != row.unwritten}

    def _shape(self) -> Shape:
        properties: dict[str, Shape] = {key: {} for key in self._ignored}
        for row in self.rows:
            shape = or_null(row.form.shape())
            properties[row.key] = {"description": row.text, **shape} if row.text else shape
            properties |= {name: {"description": f"another name of {row.key}", **shape} for name in row.also}
        closed: Shape = {} if self._takes_any_key else {"additionalProperties": False}
        needed = [{"anyOf": [_given(name, row) for name in (row.key, *row.also)]} for row in self.rows if row.missing]
        return {"type": "object", "properties": properties, **closed, **({"allOf": needed} if needed else {})}


def _given(name: str, row: KeyRow) -> Shape:
    """Return the shape of a mapping in which this name of a row stands, with a value."""
    has_value: Shape = {} if row.takes_null else {"properties": {name: {"not": {"type": "null"}}}}
    return {"required": [name], **has_value}


def or_null(shape: Shape) -> Shape:
    """Return the shape of a value that may be null, too.

    >>> or_null({"type": "object"})
    {'anyOf': [{'type': 'object'}, {'type': 'null'}]}
    """
    types = shape.get("type", ())
    takes_null = not shape or (isinstance(types, list) and "null" in types)
    return shape if takes_null else {"anyOf": [shape, {"type": "null"}]}
