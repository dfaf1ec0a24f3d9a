"""``Table``: the keys of a mapping, one row each, from which it is read, written back and documented. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

from sysfs.documents.value import DocumentValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound=DocumentValue)

_NOTHING: Final = object()


class Form(Protocol[T_co]):
    """How a value stands in a document."""

    @property
    def read(self) -> Callable[..., T_co]:
        """Makes the value of a field, given its name for errors and what the whole document is read within.

        Raises the error of the field.
        """

    @property
    def write(self) -> Callable[..., object]:
        """Makes what JSON has of a value."""


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


class Table(Generic[T]):
    """The rows of a mapping, and what makes a value of theirs. A table is a form, so that tables nest."""

    def __init__(
        self, make: Callable[..., T], *rows: KeyRow, name: str = "", ignored: tuple[str, ...] | None = ()
    ) -> None:
        """``make`` gets what was read, by the last name of a row's path; a ValueError of it is the mapping's problem.

        ``name`` is the mapping's own in errors, whose keys then stand alone (``a container: name is missing``).
        ``ignored`` are keys without a use; None: any.
        """
        self.rows = rows
        self._make = make
        self._name = name
        self._rows = {name: row for row in rows for name in (*row.also, row.key)}
        self._readers = [(row.key, row.path.rpartition(".")[2], row.form.read) for row in rows]
        self._needed = [row for row in rows if row.missing]
        self.keys = tuple(dict.fromkeys((*self._rows, *(ignored or ()))))
        self._takes_any_key = ignored is None

    def read(self, field: DocumentValue, what: str = "", within: object = None) -> T:
        """Return the value of a mapping; ``within`` is what its forms have to know. Raises the field's error."""
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
        found: dict[str, F] = {}
        given = field.entries(name) if self._takes_any_key else field.mapping(self.keys, name)
        for key, value in (*given.items(), *(beside or {}).items()):
            row = self._rows.get(key)
            if row is not None and (row.takes_null or not value.is_null) and (key == row.key or row.key not in found):
                found[row.key] = value
        for row in self._needed:
            if row.key not in found:
                raise field.refuse(f"{name}: {row.missing}")
        return found

    def made(self, fields: Mapping[str, DocumentValue], what: str = "", within: object = None, **more: object) -> T:
        """Return the value of these fields, read in the order of the rows; ``more`` is known already."""
        return self._make(**self._values(fields, what, within), **more)

    def _values(self, fields: Mapping[str, DocumentValue], what: str, within: object) -> dict[str, object]:
        lead = f"{what}." if what and not self._name else ""
        return {name: read(fields[key], lead + key, within) for key, name, read in self._readers if key in fields}

    def write(self, value: T) -> dict[str, object]:
        """Return the mapping of a value, as JSON has it."""
        found = [(row, attrgetter(row.path)(value)) for row in self.rows]
        return {row.key: row.form.write(item) for row, item in found if item != row.unwritten}
