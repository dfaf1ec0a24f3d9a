"""Find the environment variables that CDI devices add to a container, by their names. Reads specification files.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): ``containerEdits.env`` of a device and of
the whole file, NAME=VALUE each. Only root may write these files, so what they say is no wish of a pod.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from cri_proxy.cri.cdi.spec_files import SpecFiles

# Of one container: a driver writes one for each ResourceClaim.
MAX_VARIABLES: Final = 64
_NAME_CHARACTERS: Final = 256

Variables = tuple[tuple[str, str], ...]
VariablesOf = Callable[[Sequence[str]], Awaitable[Sequence[tuple[str, str]]]]
"""Returns the variables that these CDI devices add. Raises FilesFailed."""


async def no_variables(_: Sequence[str]) -> Variables:
    """Return that no CDI device adds a variable: for a node without files."""
    return ()


@dataclass(frozen=True, slots=True)
class _SpecVariables:
    """Variables in one file: of each device by its name, () for one that has none, and those that every device has."""

    devices: Mapping[str, Variables]
    common: Variables = ()

    @property
    def has_some(self) -> bool:
        """Return whether a device of this file adds any."""
        return bool(self.devices) and bool(self.common or any(self.devices.values()))


class SpecsWithVariables:
    """The variables with this prefix in the specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path, prefix: str) -> None:
        """``root`` is the directory that holds ``etc/`` and ``var/``."""
        self._root = root
        self._prefix = prefix
        self._files = SpecFiles(root, self._read)

    def of(self, names: Sequence[str]) -> Variables:
        """Return the variables that these devices add, sorted, a later device's in place of an earlier one's.

        A device counts in the first file that declares it, also where it adds none there. At most ``MAX_VARIABLES`` are
        returned.
        """
        specs = [spec for _, spec in self._files]
        found: dict[str, str] = {}
        for name in names:
            spec = next((spec for spec in specs if name in spec.devices), None)
            if spec is not None:
                found.update((*spec.common, *spec.devices[name]))
        return tuple(sorted(found.items())[:MAX_VARIABLES])

    def files(self) -> tuple[str, ...]:
        """Return the files that have such variables, as paths of the host."""
        return tuple(f"/{path.relative_to(self._root)}" for path, spec in self._files if spec.has_some)

    def _read(self, content: object) -> _SpecVariables:
        fields = content if isinstance(content, dict) else {}
        kind, devices = fields.get("kind"), fields.get("devices")
        if not isinstance(kind, str) or not isinstance(devices, list):
            return _SpecVariables({})
        named = (d for d in devices if isinstance(d, dict) and isinstance(d.get("name"), str | int))
        # Also those without a variable: they hide the devices of the same name in the other directory.
        by_name = {f"{kind}={device['name']}": tuple(self._variables(device)) for device in named}
        return _SpecVariables(by_name, tuple(self._variables(fields)))

    def _variables(self, holder: Mapping[object, object]) -> Iterator[tuple[str, str]]:
        """Yield those in the ``containerEdits`` of a device or of the whole file."""
        edits = holder.get("containerEdits")
        listed = edits.get("env") if isinstance(edits, dict) else None
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, str) and each.startswith(self._prefix):
                name, _, value = each.partition("=")
                if len(name) <= _NAME_CHARACTERS:
                    yield name, value


_specs = cache(SpecsWithVariables)  # per process: specification files are parsed again only when they change


def device_variables(root: Path, names: Sequence[str], prefix: str) -> Variables:
    """Return the variables with this prefix that these CDI devices add to a container."""
    return _specs(root, prefix).of(names)
