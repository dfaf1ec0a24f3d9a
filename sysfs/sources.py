"""Load a ``Machine`` from what ``--machine`` or a scenario names: the host, a directory, archive or description."""

import re
from collections.abc import Mapping
from pathlib import Path

from sysfs.archives.tar import MemoryTree, read_archive, split_archive
from sysfs.descriptions.machine import KEYS, describe
from sysfs.discover import discover, discover_tree
from sysfs.errors import MachineSourceError
from sysfs.known_words import did_you_mean
from sysfs.model import Machine

FORMS = (
    "host, a directory that holds sys/, an archive FILE.tar.xz[:ROOT], a description, or a name of "
    "docs/reference/machines.md"
)
MAX_DESCRIPTION_BYTES = 1 << 20
_NAME = re.compile(r"[a-z0-9.-]+")


def load_machine(spec: str | Mapping[str, object]) -> Machine:
    """Return the machine that a ``--machine`` option or a scenario's ``machine:`` names.

    A text is ``host``, a directory, an archive, a description file (``.yaml``, ``.json``, or a scenario with a
    ``machine``), a description in braces, or a name of the catalog; a mapping is a description. Raises
    MachineSourceError for a source that cannot be used, SysfsError for a tree with invalid content.
    """
    spec = _named(spec)
    if isinstance(spec, Mapping):
        return describe(spec)
    if spec == "host":
        return discover()
    archive = split_archive(spec)
    if archive is not None:
        return discover_tree(archived_tree(*archive))
    if spec.lstrip().startswith("{"):
        return describe(_description(spec, "description"))
    path = Path(spec)
    if path.suffix in {".yaml", ".yml", ".json"}:
        return describe(_description(_text(path), spec))
    return discover(path.parent if path.name == "sys" and (path / "devices").is_dir() else path, _remedy(spec))


def _named(spec: str | Mapping[str, object]) -> str | Mapping[str, object]:
    """Return the description of a name in the catalog, unless a file has that name; anything else as it is."""
    if not isinstance(spec, str) or spec == "host" or not _NAME.fullmatch(spec) or Path(spec).exists():
        return spec
    from sysfs.descriptions.catalog import BY_NAME  # late: the daemon needs none of them

    return BY_NAME[spec].description() if spec in BY_NAME else spec


def _remedy(spec: str) -> str:
    """Return what to give instead: the name that was probably meant, else all forms."""
    if Path(spec).exists():
        return f"give {FORMS}"
    from sysfs.descriptions.catalog import BY_NAME  # late: the daemon needs none of them

    return did_you_mean(spec.lower(), BY_NAME, f"give {FORMS}")


def archived_tree(path: Path, root: str = "") -> MemoryTree:
    """Return the tree at ``root`` of an archive; without a root the only one. Raises MachineSourceError.

    The root is the directory that holds ``sys``, or that ``sys`` itself.
    """
    trees = read_archive(path)
    known = ", ".join(name or "." for name in trees)
    wanted = root.strip("/").removesuffix("/sys").removeprefix("./")
    wanted = "" if wanted in {"sys", "."} else wanted
    if not trees:
        raise MachineSourceError(str(path), "it has no sys/ that discovery could read")
    if not root and len(trees) > 1:
        raise MachineSourceError(str(path), f"it holds several machines; add one of :{known.replace(', ', ', :')}")
    if not root:
        return next(iter(trees.values()))
    if wanted not in trees:
        raise MachineSourceError(f"{path}:{root}", f"no such machine in the archive; it holds {known}")
    return trees[wanted]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DESCRIPTION_BYTES + 1)
    except OSError as error:
        raise MachineSourceError(str(path), f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_DESCRIPTION_BYTES:
        raise MachineSourceError(str(path), f"it has more than {MAX_DESCRIPTION_BYTES} bytes; is it a description?")
    return data.decode("utf-8", "replace")


def _description(text: str, source: str) -> Mapping[str, object]:
    """Return the mapping of a YAML text; of a scenario its ``machine``. Raises MachineSourceError."""
    import yaml  # late: loading the host needs no YAML

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise MachineSourceError(source, f"not YAML: {' '.join(str(error).split())}") from None
    if isinstance(value, Mapping) and isinstance(value.get("machine"), Mapping):
        value = value["machine"]
    if not isinstance(value, Mapping):
        raise MachineSourceError(source, f"give a mapping with keys of {', '.join(KEYS)}")
    return value
