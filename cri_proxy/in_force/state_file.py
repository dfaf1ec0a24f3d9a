"""Keep a JSON document of the daemon's own in the state directory, and read it at the next start."""

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from cri_proxy.errors import StoreError
from cri_proxy.private_files import open_directory, open_private, private_directory, replace_file

T = TypeVar("T")

_FILE_MODE: Final = 0o600
_FOREIGN: Final = "not as this version of cri-proxy writes it"


@dataclass(frozen=True, slots=True)
class StateFile(Generic[T]):
    """A kind of document: its file's ``name``, and how a value is written to its keys and read from them.

    ``read`` raises ValueError for what ``written`` would not have made. ``version`` is a key of the document, to be
    raised when another one gets another meaning. Documents that differ in the keys ``uncompared`` alone are equal.
    """

    name: str
    most_bytes: int
    written: Callable[[T], Mapping[str, object]]
    read: Callable[[Mapping[str, object]], T]
    version: int = 1
    uncompared: frozenset[str] = frozenset()

    def document(self, value: T) -> Mapping[str, object]:
        """Return the document that holds this."""
        return {"version": self.version, **self.written(value)}

    def decode(self, raw: bytes, path: str) -> T:
        """Return what the bytes of a document hold; ``path`` is its file. Raises StoreError."""
        return self.value(_parsed(raw, self.most_bytes, path), path)

    def value(self, document: object, path: str) -> T:
        """Return what a document holds; ``path`` is its file. Raises StoreError."""
        if not isinstance(document, dict) or document.get("version") != self.version:
            raise StoreError(path, f"{_FOREIGN}; remove it")
        try:
            return self.read(document)
        except ValueError as error:
            raise StoreError(path, f"{str(error) or _FOREIGN}; remove it") from None

    def find(self, state_dir: Path) -> T | None:
        """Return what was saved; None where there is no such file. Blocks. Raises StoreError for one that is bad."""
        raw = _read(state_dir / self.name, self.most_bytes)
        return None if raw is None else self.decode(raw, str(state_dir / self.name))

    def save(self, state_dir: Path, value: T) -> None:
        """Save this for the next start. Blocks. Raises StoreError; see ``save_document``."""
        save_document(state_dir / self.name, self.document(value), self.most_bytes, self.uncompared)


# Apart from their values, so that helper processes need not load what the documents are about.


def find_document(file: Path, most_bytes: int) -> tuple[object] | None:
    """Return the JSON of this file; None where there is no such file. Blocks. Raises StoreError for one that is bad."""
    raw = _read(file, most_bytes)
    return None if raw is None else (_parsed(raw, most_bytes, str(file)),)


def save_document(file: Path, document: Mapping[str, object], most_bytes: int, uncompared: Collection[str]) -> None:
    """Save this for the next start; it is on disk when this returns. Blocks. An equal one is not written again.

    The directory is made if it is absent. Raises StoreError, and has changed nothing then.
    """
    with suppress(StoreError):  # one that cannot be used is replaced
        saved = find_document(file, most_bytes)
        if saved is not None and _compared(saved[0], uncompared) == _compared(document, uncompared):
            return
    private_directory(file.parent)
    try:
        with open_directory(file.parent) as at:
            replace_file(at, file.name, json.dumps(document, indent=1).encode(), _FILE_MODE, is_synced=True)
    except OSError as error:
        raise StoreError(str(file), f"cannot write: {error.strerror}; check the disk") from error


def _compared(document: object, uncompared: Collection[str]) -> object:
    if not isinstance(document, Mapping):
        return document
    return {key: value for key, value in document.items() if key not in uncompared}


def _read(file: Path, most_bytes: int) -> bytes | None:
    """Return the bytes of this file, one more than ``most_bytes`` of a longer one; None where there is no such file."""
    # lexists: a dangling link is not absent, and opening it reports what it is.
    if not os.path.lexists(file):
        return None
    try:
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
            return opened.read(most_bytes + 1)
    except OSError as error:
        raise StoreError(str(file), f"cannot read: {error.strerror}") from error


def _parsed(raw: bytes, most_bytes: int, path: str) -> object:
    if len(raw) > most_bytes:
        raise StoreError(path, f"larger than {most_bytes} bytes: cri-proxy did not write it; remove it")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StoreError(path, f"not JSON: {error}; remove it") from error
