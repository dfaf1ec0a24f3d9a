"""Parse the ``device-request`` annotation: how many devices of which types, ``TYPE=COUNT`` pairs or a map. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from policies.device_requests import DeviceAmount
from policies.devices.costs import SYSTEM_TYPES

MAX_TYPES: Final = 16
MAX_COUNT: Final = 256  # of one type: no node has so many devices that containers own whole
MAX_TYPE_CHARS: Final = 317  # of a resource name of Kubernetes: domain, slash and name
NONE: Final = "none"
"""Asks for nothing, and takes a wider value away."""

_EXPECTED: Final = "expected TYPE=COUNT pairs like example.com/gpu=2,example.com/nic=1, or a map of them"
_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)
_COUNT: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_REMEDIES: Final = {
    "cpu": "CPUs are asked for in the resources of the container",
    "memory": "memory is asked for in the resources of the container",
    "pci": "a PCI device that containers may get has a name of its own in a cost file",
}


def device_amounts(value: object) -> tuple[DeviceAmount, ...]:
    """Return the counts asked of each type, by type. Raises ValueError.

    >>> device_amounts("example.com/nic=1,example.com/gpu=2") == device_amounts(
    ...     {"example.com/gpu": 2, "example.com/nic": "1"}
    ... )
    True
    """
    found = named_amounts(value, _EXPECTED, _type, _count)
    if len(found) > MAX_TYPES:
        raise ValueError(f"{len(found)} types of devices; a container may ask for {MAX_TYPES}")
    return tuple(DeviceAmount(kind, count) for kind, count in found)


def amounts_text(amounts: Sequence[DeviceAmount]) -> str:
    """Return the amounts as one writes them.

    >>> amounts_text(device_amounts({"example.com/gpu": 2}))
    'example.com/gpu=2'
    """
    return ",".join(f"{amount.kind}={amount.count}" for amount in amounts)


def named_amounts(
    value: object, expected: str, name_of: Callable[[str], str], amount_of: Callable[[str, object], int]
) -> tuple[tuple[str, int], ...]:
    """Return the amounts of pairs or a map by name; nothing for ``none``. Raises ValueError, with ``expected``."""
    found: dict[str, int] = {}
    for word, amount in _named_pairs(value, expected) if value != NONE else ():
        name = name_of(word)
        if name in found:
            raise ValueError(f"{name} is named twice; name it once, with the sum")
        found[name] = amount_of(name, amount)
    if not found and value != NONE:
        raise ValueError(expected)
    return tuple(sorted(found.items()))


def _named_pairs(value: object, expected: str) -> Iterator[tuple[str, object]]:
    """Yield each name with its amount as written, of pairs or a map. Raises ValueError with ``expected``."""
    if isinstance(value, dict):
        cut_off = next((key for key, count in value.items() if count is None and "=" in str(key)), None)
        if cut_off is not None:  # ``{c0: a=1, b=1}`` has two entries in YAML
            raise ValueError(f"a comma ends a value in braces: put the pairs into quotes, before {cut_off!r:.80}")
        yield from ((str(key), count) for key, count in value.items())
    elif isinstance(value, str):
        for word in value.split(","):
            kind, is_pair, count = word.partition("=")
            if not is_pair:
                raise ValueError(f"{expected}, not {word.strip()!r:.80}")
            yield kind.strip(), count.strip()
    else:
        raise ValueError(expected)


def _type(kind: str) -> str:
    if kind in SYSTEM_TYPES:
        raise ValueError(f"{kind} is no type of devices: {_REMEDIES[kind]}")
    if len(kind) > MAX_TYPE_CHARS or not _TYPE.fullmatch(kind):
        raise ValueError(f"{kind!r:.80} is no type of devices; expected a name like example.com/gpu")
    return kind


def _count(kind: str, count: object) -> int:
    if isinstance(count, str) and _COUNT.fullmatch(count):
        count = int(count)
    if not isinstance(count, int) or isinstance(count, bool):
        raise ValueError(f"{kind}: expected a number of devices, not {count!r:.40}")
    if count < 1:
        raise ValueError(f"{kind}: {count} devices; ask for one or more, or leave the type out")
    if count > MAX_COUNT:
        raise ValueError(f"{kind}: {count} devices are more than the {MAX_COUNT} that a container may ask for")
    return count
