"""The filter of the NUMA-aware scheduler plugins, written from its published rules: which pods a node's object admits.

Rules: pkg/noderesourcetopology of kubernetes-sigs/scheduler-plugins. Only ``single-numa-node`` filters. Zones of type
Node whose name is ``node-N`` count; a request fits a zone that has it ``available``, and for a pod that is not
Guaranteed CPUs, memory and huge pages fit where they are listed. Scope container: each container takes from the lowest
zone that fits, in order. Scope pod: the sum, in one zone. A resource that no zone lists is at the level of the node,
unless it is native.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from policies.base import QosClass

Amounts = Mapping[str, Fraction]

_SUFFIXES = {"": Fraction(1), "m": Fraction(1, 1000)}


def quantity(text: object) -> Fraction:
    found = re.fullmatch(r"(\d+)(m?)", str(text))
    assert found is not None, text
    return int(found[1]) * _SUFFIXES[found[2]]


def attributes(topology: Mapping[str, object]) -> dict[str, str]:
    listed = topology["attributes"]
    assert isinstance(listed, list)
    return {each["name"]: each["value"] for each in listed}


def available(topology: Mapping[str, object]) -> dict[int, dict[str, Fraction]]:
    """What each zone of type Node has left, by its number."""
    zones = topology["zones"]
    assert isinstance(zones, list)
    found = {}
    for zone in zones:
        number = re.fullmatch(r"node-(\d+)", zone["name"])
        if zone["type"] == "Node" and number is not None:
            found[int(number[1])] = {r["name"]: quantity(r["available"]) for r in zone["resources"]}
    return found


def admits(topology: Mapping[str, object], qos: QosClass, containers: Sequence[Amounts]) -> bool:
    """Whether the filter lets a pod with these containers through to this node."""
    said = attributes(topology)
    if said["topologyManagerPolicy"] != "single-numa-node":
        return True
    if qos is QosClass.BEST_EFFORT and all(map(_is_native, (name for each in containers for name in each))):
        return True
    zones = available(topology)
    if said["topologyManagerScope"] == "pod":
        names = {name for each in containers for name in each}
        return (
            _lowest(
                zones, qos, {name: sum((c.get(name, Fraction()) for c in containers), Fraction()) for name in names}
            )
            is not None
        )
    for container in containers:
        node = _lowest(zones, qos, container)
        if node is None:
            return False
        for name, amount in container.items():
            if name in zones[node]:
                zones[node][name] -= amount
    return True


def _lowest(zones: Mapping[int, Amounts], qos: QosClass, asked: Amounts) -> int | None:
    fitting = set(zones)
    for name, amount in asked.items():
        listing = [node for node, has in zones.items() if name in has]
        if not amount or (not listing and not _is_native(name)):
            continue
        fitting &= {node for node in listing if _suits(qos, name) or zones[node][name] >= amount}
    return min(fitting, default=None)


def _is_native(name: str) -> bool:
    return "/" not in name


def _suits(qos: QosClass, name: str) -> bool:
    return qos is not QosClass.GUARANTEED and _is_native(name)
