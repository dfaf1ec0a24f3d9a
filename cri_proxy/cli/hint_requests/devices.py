"""Read the devices of each resource, and how many of them are asked for."""

from dataclasses import dataclass, field, replace
from typing import Final

from cri_proxy.yaml_fields import YamlField
from policies.hints import DeviceProvider, DeviceRequest
from sysfs.documents.forms import each, scalar, whole
from sysfs.documents.table import Form, KeyRow, Table


@dataclass(frozen=True, slots=True)
class _Resource:
    """The state of reading one resource: the mask of the machine's nodes, the nodes of the devices read so far."""

    machine: int
    nodes: dict[str, int | None] = field(default_factory=dict)


def _devices(value: YamlField, what: str, within: _Resource) -> dict[str, int | None]:
    for device, nodes in value.entries(what).items():
        within.nodes[device] = _nodes(nodes, f"{what}.{device}", within.machine)
    return within.nodes


def _ids(value: YamlField, what: str, within: _Resource) -> frozenset[str]:
    found: set[str] = set()
    for item in value.items(what):
        device = item.text(what)
        if device in found:
            raise item.refuse(f"{what}: {device!r} stands twice")
        if device not in within.nodes:
            known = ", ".join(within.nodes) or "none"
            raise item.refuse(f"{what}: {device!r} is no device of this resource; they are {known}")
        found.add(device)
    return frozenset(found)


_IDS: Final = Form(_ids)
_NONE: Final = frozenset[str]()
_NO_REQUEST: Final = "give request: NUMBER and devices: {ID: [NODE]}"
DEVICES: Final = Table(
    lambda request, devices, unhealthy=_NONE, used=_NONE, reusable=_NONE, **more: DeviceRequest(
        request, devices, frozenset(devices) - unhealthy - used - reusable, reusable, **more
    ),
    KeyRow("request", scalar(whole), "how many", _NO_REQUEST),
    KeyRow("devices", Form(_devices), "the NUMA nodes of each by its ID; `[]`: unknown", _NO_REQUEST),
    KeyRow("unhealthy", _IDS, "devices that no container can get"),
    KeyRow("used", _IDS, "devices that other containers hold"),
    KeyRow("allocated", _IDS, "devices that the container holds"),
    KeyRow("reusable", _IDS, "devices that its init containers leave"),
    KeyRow("preferred", each(_IDS), "sets that their plugin prefers", field="preferred_sets"),
)


def read_devices(field: YamlField, machine: int, *, has_preferred_sets: bool) -> DeviceProvider:
    """Return the provider of devices that a document asks. Raises DocumentError.

    ``machine`` is the mask of all nodes. Without ``has_preferred_sets`` the ``preferred`` sets are not used.
    """
    requests = {}
    for resource, value in field.entries("devices").items():
        if resource in ("cpu", "memory") or resource.startswith("hugepages-"):
            raise value.refuse(f"devices: {resource!r} is no resource of devices; name it as example.com/gpu")
        found = DEVICES.read(value, f"devices.{resource}", _Resource(machine))
        requests[resource] = found if has_preferred_sets else replace(found, preferred_sets=None)
    return DeviceProvider(machine, requests)


def _nodes(field: YamlField, what: str, machine: int) -> int | None:
    """Return the nodes of a device that the machine has; None where its plugin names none at all."""
    numbers = {item.parsed(what, _number) for item in field.items(what)}
    return sum(1 << node for node in numbers if node >= 0 and machine >> node & 1) if numbers else None


def _number(text: str) -> int:
    """Return the number of a node, be there one or not: a plugin may say -1."""
    return -whole(text[1:]) if text.startswith("-") else whole(text)
