"""Save the texts of the files in force in the state directory; find them at a start with a bad file."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import StoreError
from cri_proxy.node_files.directory import MAX_BYTES
from cri_proxy.private_files import open_directory, open_private, private_directory, replace_file

FILE: Final = "cost-files-in-force.json"
INVENTORY_FILE: Final = "device-inventory-in-force.json"
_FILE_MODE: Final = 0o600
# To be raised by a version that gives a key of the document another meaning.
_VERSION: Final = 1
# JSON writes a control character with six.
_LARGEST_BYTES: Final = 6 * MAX_BYTES + (1 << 20)


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """The texts in force of a directory's files, or of the one file, as (name, text) by name."""

    directory: Path
    texts: tuple[tuple[str, str], ...] = ()


def save_costs(state_dir: Path, kept: KeptTexts) -> None:
    """Save cost files as ``save_texts`` does."""
    save_texts(state_dir, kept, FILE)


def save_inventory(state_dir: Path, kept: KeptTexts) -> None:
    """Save an inventory file as ``save_texts`` does."""
    save_texts(state_dir, kept, INVENTORY_FILE)


def save_texts(state_dir: Path, kept: KeptTexts, name: str) -> None:
    """Save this for the next start in a file of this name; it is on disk when this returns. Blocks.

    What is there already is not written again. Raises StoreError, and has changed nothing then.
    """
    with suppress(StoreError):  # one that cannot be used is replaced
        if find_texts(state_dir, kept.directory, name) == kept:
            return
    private_directory(state_dir)
    document = {"version": _VERSION, "directory": str(kept.directory), "texts": dict(kept.texts)}
    try:
        with open_directory(state_dir) as at:
            replace_file(at, name, json.dumps(document, indent=1).encode(), _FILE_MODE, is_synced=True)
    except OSError as error:
        raise StoreError(str(state_dir / name), f"cannot write: {error.strerror}; check the disk") from error


def find_costs(state_dir: Path, directory: Path) -> KeptTexts:
    """Return what was saved of cost files, as ``find_texts`` does."""
    return find_texts(state_dir, directory, FILE)


def find_inventory(state_dir: Path, path: Path) -> KeptTexts:
    """Return what was saved of an inventory file, as ``find_texts`` does."""
    return find_texts(state_dir, path, INVENTORY_FILE)


def find_texts(state_dir: Path, directory: Path, name: str) -> KeptTexts:
    """Return what was saved in a file of this name of this directory's files; nothing of another's. Blocks.

    Raises StoreError, with the reason, for a file that cannot be used.
    """
    file = state_dir / name
    if not os.path.lexists(file):
        return KeptTexts(directory)
    try:
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
            raw = opened.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise StoreError(str(file), f"cannot read: {error.strerror}") from error
    return decode_texts(raw, directory, str(file))


def decode_texts(raw: bytes, directory: Path, name: str) -> KeptTexts:
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
        return KeptTexts(directory)
    return KeptTexts(directory, tuple(sorted(texts.items())))
