"""Find the environment variables that CDI devices add to a container, by their names. Pure.

Source: the CDI specification (cncf-tags/container-device-interface, SPEC.md): ``containerEdits.env`` of a device and of
the whole file, NAME=VALUE each. Only root may write these files, so what they say is no wish of a pod.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from cri_proxy.cri.cdi.specs import CdiSpec, Fields, Specs, declaring
from cri_proxy.errors import CriProxyError

# Of one container: a driver writes one for each ResourceClaim.
MAX_VARIABLES: Final = 64
_NAME_CHARACTERS: Final = 256

Variables = tuple[tuple[str, str], ...]
AddedVariables = tuple[Variables, frozenset[str]]
"""Variables, and the kinds of the devices that add them."""
VariablesOf = Callable[[Sequence[str]], Awaitable[Sequence[tuple[str, str]]]]
"""Returns the variables that these CDI devices add. Raises FilesFailed, and ClaimNotRead."""


class ClaimNotRead(CriProxyError):
    """CPUs were chosen for a container by a CDI device, and which is not known: it gets no others."""


def kind_of(name: str) -> str:
    """Return the kind in the name of a CDI device: ``vendor.com/class`` of ``vendor.com/class=device``."""
    return name.partition("=")[0]


async def no_variables(_: Sequence[str]) -> Variables:
    """Return no variable: for a node without files."""
    return ()


def variables_of(specs: Specs, names: Iterable[str], prefix: str) -> AddedVariables:
    """Return the variables with this prefix that these devices add, sorted, a later device's in place of an earlier's.

    A device counts in the first file that declares it, also where it adds none there. At most ``MAX_VARIABLES`` are
    returned.
    """
    found: dict[str, str] = {}
    kinds: set[str] = set()
    for name in names:
        spec = declaring(specs, name)
        added = dict(chain.from_iterable(_variables(each, prefix) for each in (spec.content, *spec.device(name))))
        found |= added
        kinds |= {kind_of(name)} if added else set()
    return tuple(sorted(found.items())[:MAX_VARIABLES]), frozenset(kinds)


def adds_variables(spec: CdiSpec, prefix: str) -> bool:
    """Return whether a device of this file adds a variable with this prefix."""
    holders = (spec.content, *chain.from_iterable(map(spec.device, spec.devices)))
    return bool(spec.devices) and any(True for holder in holders for _ in _variables(holder, prefix))


def _variables(holder: Fields, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield those in the ``containerEdits`` of a device or of the whole file."""
    edits = holder.get("containerEdits")
    listed = edits.get("env") if isinstance(edits, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, str) and each.startswith(prefix):
            name, _, value = each.partition("=")
            if len(name) <= _NAME_CHARACTERS:
                yield name, value
