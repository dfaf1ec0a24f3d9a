"""The texts of files in force, as they are saved in the state directory for a start with a bad file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.in_force.state_file import StateFile
from cri_proxy.in_force.text_files import MAX_BYTES


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """The texts in force of a directory's files, or of the one file at a path, as (name, text) by name."""

    directory: Path
    texts: tuple[tuple[str, str], ...] = ()


def texts_file(name: str) -> StateFile[KeptTexts]:
    """Return the document of this name that holds texts."""
    # JSON writes a control character with six bytes.
    return StateFile(name, 6 * MAX_BYTES + (1 << 20), _written, _read)


def _written(kept: KeptTexts) -> Mapping[str, object]:
    return {"directory": str(kept.directory), "texts": dict(kept.texts)}


def _read(document: Mapping[str, object]) -> KeptTexts:
    texts, directory = document.get("texts"), document.get("directory")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError
    return KeptTexts(Path(str(directory)), tuple(sorted(texts.items())))
