"""Encode a grant as JSON for the container's annotation, the runtime's copy of our state, and decode it. Pure."""

import json
from dataclasses import dataclass, fields
from typing import Final

from cri_proxy.codec import decode, encode, encode_fields
from cri_proxy.errors import CriProxyError
from policies.alignment import Alignment
from policies.base import CpuKind, Grant
from policies.claims import CpuClaim
from policies.device_grants import DeviceGrant, listed_only
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet, NodeSet

VERSION: Final = 2
# There devices of cost files stood by name, those of the inventory in a list of their own. Without devices nothing has
# changed, and a program of before reads it.
_BEFORE_ONE_LIST: Final = 1
_OF_REQUEST: Final = ("alignment", "claim")


@dataclass(eq=False)
class GrantTextError(CriProxyError):
    """A grant annotation that cannot be read. The container is then placed again."""

    text: str
    problem: str

    def __str__(self) -> str:
        return f"grant annotation {self.text!r:.80}: {self.problem}"


@dataclass(frozen=True, slots=True)
class GrantParts:
    """The parts of a grant, without the request behind it; fields as in ``policies.base.Grant``."""

    pool: str
    kind: CpuKind
    exclusive: CpuSet
    isolated: CpuSet
    shared_mcpu: int
    reserved_mcpu: int
    mems: NodeSet
    added: tuple[CpuSet, ...] = ()
    share: PodShare | None = None
    spill: NodeSet = NodeSet()
    devices: tuple[DeviceGrant, ...] = ()
    alignment: Alignment | None = None  # of the request, which the annotation does not have, as is the next
    claim: CpuClaim | None = None


def grant_to_text(grant: Grant) -> str:
    """Return the grant's parts as compact JSON with a version; sets in the kernel's list format."""
    own = {field.name: getattr(grant, field.name) for field in fields(GrantParts) if field.name not in _OF_REQUEST}
    parts = encode_fields(GrantParts(**own, **{name: getattr(grant.request, name) for name in _OF_REQUEST}))
    parts["devices"] = encode(grant.devices, sparse=True)
    for optional in ("added", "share", "spill", "devices", *_OF_REQUEST):
        if not parts[optional]:
            del parts[optional]
    version = VERSION if grant.devices else _BEFORE_ONE_LIST
    return json.dumps({"v": version, **parts}, separators=(",", ":"))


def grant_parts_from_text(text: str) -> GrantParts:
    """Parse what ``grant_to_text`` wrote. Raises GrantTextError."""
    try:
        parts = json.loads(text)
        version = parts.get("v") if isinstance(parts, dict) else None
        if version == _BEFORE_ONE_LIST:
            parts = _in_one_list(parts)
        elif version != VERSION:
            raise GrantTextError(text, f"expected a JSON object with v={VERSION}")
        return decode(GrantParts, parts)
    except (ValueError, RecursionError) as error:
        raise GrantTextError(text, str(error)) from None


def _in_one_list(parts: dict[str, object]) -> dict[str, object]:
    """Return parts of version 1 with all devices in one list. Raises ValueError."""
    names, allocated = parts.get("devices", []), parts.get("allocated", [])
    if not isinstance(names, list) or not isinstance(allocated, list):
        raise ValueError("devices: expected a list")
    if not all(isinstance(name, str) for name in names):
        raise ValueError("devices: expected names")
    return {**parts, "devices": [*(encode(listed_only(name), sparse=True) for name in names), *allocated]}
