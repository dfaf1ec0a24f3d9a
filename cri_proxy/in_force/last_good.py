"""Save the texts of the files in force in the state directory; find them at a start with a bad file."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import StoreError
from cri_proxy.in_force.state_file import DocumentForm, foreign, save
from cri_proxy.in_force.text_files import MAX_BYTES

FILE: Final = "cost-files-in-force.json"
INVENTORY_FILE: Final = "device-inventory-in-force.json"
# The version is to be raised by one that gives a key another meaning. JSON writes a control character with six bytes.
_FORM: Final = DocumentForm(version=1, most_bytes=6 * MAX_BYTES + (1 << 20))


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
    save(state_dir / name, _FORM.encode(directory=str(kept.directory), texts=dict(kept.texts)))


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
    raw = _FORM.find(file)
    return decode_texts(raw, directory, str(file)) if raw is not None else KeptTexts(directory)


def decode_texts(raw: bytes, directory: Path, name: str) -> KeptTexts:
    """Return what the document says of this directory; ``name`` is its file. Raises StoreError."""
    document = _FORM.parse(raw, name)
    texts = document.get("texts")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise foreign(name)
    if document.get("directory") != str(directory):
        return KeptTexts(directory)
    return KeptTexts(directory, tuple(sorted(texts.items())))
