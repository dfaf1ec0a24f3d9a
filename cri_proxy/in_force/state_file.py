"""Keep a JSON document of the daemon's own in the state directory, and read it at the next start."""

import json
import os
from collections.abc import Callable, Mapping
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
    raised when another one gets another meaning. The functions run in helper processes.
    """

    name: str
    most_bytes: int
    written: Callable[[T], Mapping[str, object]]
    read: Callable[[Mapping[str, object]], T]
    version: int = 1

    def encode(self, value: T) -> bytes:
        """Return the document that holds this."""
        return json.dumps({"version": self.version, **self.written(value)}, indent=1).encode()

    def decode(self, raw: bytes, path: str) -> T:
        """Return what a document holds; ``path`` is its file. Raises StoreError."""
        if len(raw) > self.most_bytes:
            raise StoreError(path, f"larger than {self.most_bytes} bytes: cri-proxy did not write it; remove it")
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise StoreError(path, f"not JSON: {error}; remove it") from error
        if not isinstance(document, dict) or document.get("version") != self.version:
            raise StoreError(path, f"{_FOREIGN}; remove it")
        try:
            return self.read(document)
        except ValueError as error:
            raise StoreError(path, f"{str(error) or _FOREIGN}; remove it") from None

    def find(self, state_dir: Path) -> T | None:
        """Return what was saved; None where there is no such file. Blocks. Raises StoreError for one that is bad."""
        file = state_dir / self.name
        if not os.path.lexists(file):
            return None
        try:
            with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
                raw = opened.read(self.most_bytes + 1)
        except OSError as error:
            raise StoreError(str(file), f"cannot read: {error.strerror}") from error
        return self.decode(raw, str(file))

    def save(self, state_dir: Path, value: T) -> None:
        """Save this for the next start; it is on disk when this returns. Blocks. An equal one is not written again.

        The directory is made if it is absent. Raises StoreError, and has changed nothing then.
        """
        with suppress(StoreError):  # one that cannot be used is replaced
            if self.find(state_dir) == value:
                return
        private_directory(state_dir)
        try:
            with open_directory(state_dir) as at:
                replace_file(at, self.name, self.encode(value), _FILE_MODE, is_synced=True)
        except OSError as error:
            path = str(state_dir / self.name)
            raise StoreError(path, f"cannot write: {error.strerror}; check the disk") from error
