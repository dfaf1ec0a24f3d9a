"""Read CDI specification files: of /var/run/cdi before those of /etc/cdi, each again when it changes.

A device plugin or DRA driver writes them; the runtime adds the devices in them to containers. Source: the CDI
specification (cncf-tags/container-device-interface, SPEC.md), which names both directories and the two formats.
"""

import json
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from os import major, minor
from pathlib import Path

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
from cri_proxy.cri.cdi.conversion import HostFile
from cri_proxy.cri.cdi.resolve import ResolvedDevices, resolve
from cri_proxy.cri.cdi.specs import NO_SPECIFICATION, CdiSpec, cdi_spec, declared, named
from cri_proxy.cri.cdi.variables import Variables, adds_variables, variables_of
from cri_proxy.cri.device_names.names import DeviceName
from cri_proxy.foreign_files.beneath import FileBeneath, FileRefused, open_beneath
from cri_proxy.in_force.file_cache import ParsedFiles

DIRECTORIES = ("var/run/cdi", "etc/cdi")
# Some drivers write a file for each ResourceClaim. Only root may write there: this bounds accidents.
MAX_FILES = 2048
MAX_FILE_BYTES = 4 << 20

_YAML = Dialect(MAX_FILE_BYTES, max_depth=32, max_nodes=500_000, has_aliases=True)


class CdiFiles:
    """The specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path) -> None:
        """``root`` is the directory that holds ``dev/``, ``etc/`` and ``var/``."""
        self._root = root
        self._files = ParsedFiles(_parsed)

    def __reduce__(self) -> tuple[Callable[[Path], "CdiFiles"], tuple[Path]]:
        """Be that of the helper process to which this is sent: it remembers what it has parsed."""
        return cdi_files, (self._root,)

    def specs(self) -> tuple[tuple[str, CdiSpec], ...]:
        """Return what each file says, the stronger directory first; a file that cannot be opened is left out."""
        found: dict[Path, CdiSpec] = {}
        for place in DIRECTORIES:
            with suppress(OSError), open_beneath(self._root / place) as directory:
                names = sorted(name for name in directory.names() if Path(name).suffix in (".json", ".yaml"))
                for path in (self._root / place / name for name in names[:MAX_FILES]):
                    with suppress(OSError):
                        try:
                            found[path] = self._files.of(directory, path)
                        except FileRefused:
                            found[path] = NO_SPECIFICATION
        self._files.keep(found)  # without files that are gone: those of claims come and go with their pods
        return tuple((f"/{path.relative_to(self._root)}", spec) for path, spec in found.items())

    def named(self, asked: Sequence[tuple[str, str]]) -> tuple[DeviceName, ...]:
        """Return what names the devices behind these CDI names, as ``specs.named``."""
        return named(self.specs(), asked) if asked else ()

    def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of these names that a file declares, in their order: a runtime refuses all others."""
        return declared(self.specs(), names)

    def unreadable(self) -> tuple[str, ...]:
        """Return the paths of files that are no specifications: what devices they should declare is not known."""
        return tuple(path for path, spec in self.specs() if not spec.is_specification)

    def variables(self, names: Sequence[str], prefix: str) -> Variables:
        """Return the variables with this prefix that these CDI devices add, as ``variables_of``."""
        return variables_of(self.specs(), names, prefix)

    def with_variables(self, prefix: str) -> tuple[str, ...]:
        """Return the files of which a device adds variables with this prefix."""
        return tuple(path for path, spec in self.specs() if adds_variables(spec, prefix))

    def resolve(self, names: Sequence[str]) -> ResolvedDevices:
        """Return what a container with these devices gets."""
        return resolve(self.specs(), names, self._host_file)

    def _host_file(self, path: str) -> HostFile | None:
        """Return what the host has at this path, links followed as the runtime does."""
        try:
            found = (self._root / path.lstrip("/")).stat()
        except (OSError, ValueError):
            return None
        kinds = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFDIR: "d"}
        number = (major(found.st_rdev), minor(found.st_rdev))
        kind = kinds.get(stat.S_IFMT(found.st_mode), "")
        return HostFile(kind, number, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


@cache
def cdi_files(root: Path) -> CdiFiles:
    """Return the files below this root, the same object in one process: each is parsed again only when it changes."""
    return CdiFiles(root)


def _parsed(file: FileBeneath, path: Path) -> CdiSpec:
    """Parse JSON, else YAML; no specification where it is neither, or too long. Raises OSError."""
    content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return NO_SPECIFICATION
    try:
        return cdi_spec(json.loads(content))
    except (ValueError, RecursionError):
        try:
            return cdi_spec(plain(parse_tree(content.decode(), _YAML)))
        except (YamlError, ValueError):
            return NO_SPECIFICATION
