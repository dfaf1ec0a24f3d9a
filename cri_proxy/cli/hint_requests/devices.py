"""Read the devices of each resource, and how many of them are asked for."""

from collections.abc import Mapping

from cri_proxy.cli.hint_requests.values import given, names, whole
from cri_proxy.yaml_fields import YamlField
from policies.hints.devices import DeviceProvider, DeviceRequest
from sysfs.cpuset import NodeSet

_KEYS = ("request", "devices", "unhealthy", "used", "allocated", "reusable", "preferred")
_OTHER_PROVIDERS = ("cpu", "memory")


def read_devices(field: YamlField, machine: int, *, has_preferred_sets: bool) -> DeviceProvider:
    """Return the provider of devices that a document asks. Raises DocumentError.

    ``machine`` is the mask of all nodes. Without ``has_preferred_sets`` the ``preferred`` sets are not used.
    """
    requests = {}
    for resource, value in field.entries("devices").items():
        if resource in _OTHER_PROVIDERS or resource.startswith("hugepages-"):
            raise value.refuse(f"devices: {resource!r} is no resource of devices; name it as example.com/gpu")
        requests[resource] = _request(value, resource, machine, has_preferred_sets=has_preferred_sets)
    return DeviceProvider(machine, requests)


def _request(field: YamlField, resource: str, machine: int, *, has_preferred_sets: bool) -> DeviceRequest:
    what = f"devices.{resource}"
    fields = given(field.mapping(_KEYS, what))
    for key in ("request", "devices"):
        if key not in fields:
            raise field.refuse(f"{what}: give request: NUMBER and devices: {{ID: [NODE]}}")
    entries = fields["devices"].entries(f"{what}.devices")
    nodes = {device: _nodes(value, f"{what}.devices.{device}", machine) for device, value in entries.items()}
    held = {
        key: _ids(fields.get(key), f"{what}.{key}", nodes) for key in ("unhealthy", "used", "allocated", "reusable")
    }
    return DeviceRequest(
        fields["request"].parsed(f"{what}.request", whole),
        nodes,
        frozenset(nodes) - held["unhealthy"] - held["used"] - held["reusable"],
        held["reusable"],
        held["allocated"],
        _preferred(fields.get("preferred"), f"{what}.preferred", nodes) if has_preferred_sets else None,
    )


def _nodes(field: YamlField, what: str, machine: int) -> int | None:
    """Return the nodes of a device that the machine has; None where its plugin names none at all."""
    if field.is_null or (field.is_list and not field.items(what)):
        return None
    numbers = [item.parsed(what, _number) for item in field.items(what)]
    return sum(1 << node for node in NodeSet(machine) if node in numbers)


def _number(text: str) -> int:
    """Return the number of a node, be there one or not: a plugin may say -1."""
    return -whole(text[1:]) if text.startswith("-") else whole(text)


def _ids(field: YamlField | None, what: str, nodes: Mapping[str, int | None]) -> frozenset[str]:
    found = names(field, what)
    for device in found:
        if field and device not in nodes:
            raise field.refuse(
                f"{what}: {device!r} is no device of this resource; they are {', '.join(nodes) or 'none'}"
            )
    return frozenset(found)


def _preferred(
    field: YamlField | None, what: str, nodes: Mapping[str, int | None]
) -> tuple[frozenset[str], ...] | None:
    """Return the sets that the plugin prefers; None where it has no such call."""
    return None if field is None else tuple(_ids(item, what, nodes) for item in field.items(what))
