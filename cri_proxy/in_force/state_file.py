"""Keep a JSON document of the daemon's own in the state directory, and read it at the next start."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import StoreError
from cri_proxy.private_files import open_directory, open_private, private_directory, replace_file

_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """What a document may be: of this version, which is a key of it, and at most so many bytes."""

    version: int
    most_bytes: int

    def parse(self, raw: bytes, name: str) -> Mapping[str, object]:
        """Return the keys of a document; ``name`` is its file. Raises StoreError."""
        if len(raw) > self.most_bytes:
            raise StoreError(name, f"larger than {self.most_bytes} bytes: cri-proxy did not write it; remove it")
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise StoreError(name, f"not JSON: {error}; remove it") from error
        if not isinstance(document, dict) or document.get("version") != self.version:
            raise foreign(name)
        return document

    def find(self, file: Path) -> bytes | None:
        """Return the document of this file, cut behind the most bytes; None where there is none. Blocks.

        Raises StoreError, with the reason, for a file that cannot be read.
        """
        if not os.path.lexists(file):
            return None
        try:
            with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
                return opened.read(self.most_bytes + 1)
        except OSError as error:
            raise StoreError(str(file), f"cannot read: {error.strerror}") from error

    def encode(self, **keys: object) -> bytes:
        """Return the document that has these keys."""
        return json.dumps({"version": self.version, **keys}, indent=1).encode()


def save(file: Path, content: bytes) -> None:
    """Save a document for the next start; it is on disk when this returns. Blocks.

    The directory is made if it is absent. Raises StoreError, and has changed nothing then.
    """
    private_directory(file.parent)
    try:
        with open_directory(file.parent) as at:
            replace_file(at, file.name, content, _FILE_MODE, is_synced=True)
    except OSError as error:
        raise StoreError(str(file), f"cannot write: {error.strerror}; check the disk") from error


def foreign(name: str) -> StoreError:
    """Return the error for a document that this version would not write."""
    return StoreError(name, "not as this version of cri-proxy writes it; remove it")
