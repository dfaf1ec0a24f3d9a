"""Read numbers, sets of nodes and CPUs, and lists of names from a document; every error says what was expected."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cri_proxy.yaml_fields import YamlField, short_repr, without_leading_zeros
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.quantity import QuantityError, parse_bytes

T = TypeVar("T")

MAX_NODE: Final = 1023  # CONFIG_NODES_SHIFT=10, the most that kernels are built for
_MAX_DIGITS = 18


def whole(text: str) -> int:
    """Return a number that is not negative. Raises ValueError.

    >>> whole("8")
    8
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"expected a whole number from 0, got {short_repr(text)}")
    return int(without_leading_zeros(text))


def node_number(text: str) -> int:
    """Return the number of a node. Raises ValueError."""
    node = whole(text)
    if node > MAX_NODE:
        raise ValueError(f"expected a node from 0 to {MAX_NODE}, got {node}")
    return node


def given(fields: Mapping[str, YamlField]) -> dict[str, YamlField]:
    """Return the fields without those that are null."""
    return {key: field for key, field in fields.items() if not field.is_null}


def by_key(field: YamlField, what: str, parse: Callable[[str], T]) -> dict[T, YamlField]:
    """Return the values of a mapping by what its keys are read as. Raises DocumentError."""
    found: dict[T, YamlField] = {}
    for text, value in field.entries(what).items():
        try:
            key = parse(text)
        except ValueError as error:
            raise value.refuse(f"{what}: {error}") from None
        if key in found:
            raise value.refuse(f"{what}: {text!r} stands twice")
        found[key] = value
    return found


def cpu_mask(field: YamlField, what: str) -> int:
    """Return a CPU list (``0-3,8``), or a list of numbers, as a mask. Raises DocumentError."""
    if field.is_null:
        return 0
    if field.is_list:
        return CpuSet.of_masks(item.parsed(what, CpuSet.parse).mask for item in field.items(what)).mask
    return field.parsed(what, CpuSet.parse).mask


def node_mask(field: YamlField, what: str, machine: int) -> int:
    """Return a list of nodes as a mask; every one is a node of the machine. Raises DocumentError."""
    mask = NodeSet.of(item.parsed(what, node_number) for item in field.items(what)).mask
    if mask & ~machine:
        raise field.refuse(f"{what}: there is no node {NodeSet(mask & ~machine)}; the nodes are {NodeSet(machine)}")
    return mask


def names(field: YamlField | None, what: str) -> tuple[str, ...]:
    """Return a list of names without doubles. Raises DocumentError."""
    found: list[str] = []
    for item in field.items(what) if field is not None else ():
        name = item.text(what)
        if name in found:
            raise item.refuse(f"{what}: {name!r} stands twice")
        found.append(name)
    return tuple(found)


def amounts_of_memory(field: YamlField, what: str) -> dict[str, int]:
    """Return bytes by resource: ``{memory: 1Gi, hugepages-2Mi: 64Mi}``. Raises DocumentError."""
    found = {}
    for resource, value in field.entries(what).items():
        if resource != "memory" and not _is_page_size(resource.removeprefix("hugepages-"), resource):
            shown = short_repr(resource)
            raise value.refuse(f"{what}: unknown resource {shown}; give memory or hugepages-SIZE, as hugepages-2Mi")
        found[resource] = value.parsed(f"{what}.{resource}", parse_bytes)
    return found


def _is_page_size(size: str, resource: str) -> bool:
    try:
        return size != resource and parse_bytes(size) > 0
    except QuantityError:
        return False
