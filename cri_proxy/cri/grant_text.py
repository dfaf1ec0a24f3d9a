"""The grant as one line of JSON in the container's annotations: a second copy of the state, kept by the runtime."""

import json
from dataclasses import dataclass
from typing import TypeVar

from cri_proxy.errors import CriProxyError
from policies.base import CpuKind, Grant
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

VERSION = 1
_T = TypeVar("_T", str, int, list[object])


@dataclass(eq=False)
class GrantTextError(CriProxyError):
    """A grant annotation that cannot be read. The container is then placed again."""

    text: str
    problem: str

    def __str__(self) -> str:
        return f"grant annotation {self.text!r:.80}: {self.problem}"


@dataclass(frozen=True, slots=True)
class GrantParts:
    """What a grant holds, without the request behind it; fields as in ``policies.base.Grant``."""

    pool: str
    kind: CpuKind
    exclusive: CpuSet
    isolated: CpuSet
    shared_mcpu: int
    reserved_mcpu: int
    mems: NodeSet
    added: tuple[CpuSet, ...] = ()


def grant_to_text(grant: Grant) -> str:
    """Return the grant's parts as compact JSON with a version; sets in the kernel's list format."""
    parts: dict[str, object] = {
        "v": VERSION,
        "pool": grant.pool,
        "kind": grant.kind.value,
        "exclusive": str(grant.exclusive),
        "isolated": str(grant.isolated),
        "shared_mcpu": grant.shared_mcpu,
        "reserved_mcpu": grant.reserved_mcpu,
        "mems": str(grant.mems),
    }
    if grant.added:
        parts["added"] = [str(cpus) for cpus in grant.added]
    return json.dumps(parts, separators=(",", ":"))


def grant_parts_from_text(text: str) -> GrantParts:
    """Parse what ``grant_to_text`` wrote. Raises GrantTextError."""
    try:
        parts = json.loads(text)
        if not isinstance(parts, dict) or parts.get("v") != VERSION:
            raise GrantTextError(text, f"expected a JSON object with v={VERSION}")
        return GrantParts(
            pool=_typed(parts["pool"], str),
            kind=CpuKind(parts["kind"]),
            exclusive=CpuSet.parse(_typed(parts["exclusive"], str)),
            isolated=CpuSet.parse(_typed(parts["isolated"], str)),
            shared_mcpu=_typed(parts["shared_mcpu"], int),
            reserved_mcpu=_typed(parts["reserved_mcpu"], int),
            mems=NodeSet.parse(_typed(parts["mems"], str)),
            added=tuple(CpuSet.parse(_typed(cpus, str)) for cpus in _typed(parts.get("added", []), list)),
        )
    except KeyError as error:
        raise GrantTextError(text, f"{error} is missing") from None
    except (ValueError, TypeError, RecursionError, CpuSetError) as error:
        raise GrantTextError(text, str(error)) from None


def _typed(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, got {value!r:.40}")
    return value
