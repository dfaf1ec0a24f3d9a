"""Save the texts of the cost files in force in the state directory; find them at a start with a bad file."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.costs.directory import MAX_BYTES
from cri_proxy.errors import StoreError
from cri_proxy.private_files import open_directory, open_private, private_directory, replace_file

FILE: Final = "cost-files-in-force.json"
_FILE_MODE: Final = 0o600
# To be raised by a version that gives a key of the document another meaning.
_VERSION: Final = 1
# JSON writes a control character with six.
_LARGEST_BYTES: Final = 6 * MAX_BYTES + (1 << 20)


@dataclass(frozen=True, slots=True)
class KeptCosts:
    """The texts in force of a directory's cost files, as (name, text) by name."""

    directory: Path
    texts: tuple[tuple[str, str], ...] = ()


def save_costs(state_dir: Path, kept: KeptCosts) -> None:
    """Save this for the next start; it is on disk when this returns. Blocks.

    What is there already is not written again. Raises StoreError, and has changed nothing then.
    """
    with suppress(StoreError):  # one that cannot be used is replaced
        if find_costs(state_dir, kept.directory) == kept:
            return
    private_directory(state_dir)
    document = {"version": _VERSION, "directory": str(kept.directory), "texts": dict(kept.texts)}
    try:
        with open_directory(state_dir) as at:
            replace_file(at, FILE, json.dumps(document, indent=1).encode(), _FILE_MODE, is_synced=True)
    except OSError as error:
        raise StoreError(str(state_dir / FILE), f"cannot write: {error.strerror}; check the disk") from error


def find_costs(state_dir: Path, directory: Path) -> KeptCosts:
    """Return what was saved of this directory's files; nothing of another's. Blocks.

    Raises StoreError, with the reason, for a file that cannot be used.
    """
    file = state_dir / FILE
    if not os.path.lexists(file):
        return KeptCosts(directory)
    try:
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
            raw = opened.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise StoreError(str(file), f"cannot read: {error.strerror}") from error
    return decode_costs(raw, directory, str(file))


def decode_costs(raw: bytes, directory: Path, name: str) -> KeptCosts:
    """Return what the document says of this directory; ``name`` is its file. Raises StoreError."""
    if len(raw) > _LARGEST_BYTES:
        raise StoreError(name, f"larger than {_LARGEST_BYTES} bytes: cri-proxy did not write it; remove it")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StoreError(name, f"not JSON: {error}; remove it") from error
    texts = document.get("texts") if isinstance(document, dict) and document.get("version") == _VERSION else None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise StoreError(name, "not as this version of cri-proxy writes it; remove it")
    if document.get("directory") != str(directory):
        return KeptCosts(directory)
    return KeptCosts(directory, tuple(sorted(texts.items())))
