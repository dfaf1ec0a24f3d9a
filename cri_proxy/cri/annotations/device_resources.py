"""Parse the ``device-resources`` annotation: amounts of the inventory's devices by Koordinator's resource names. Pure.

CRI has no field for extended resources, so a container's request does not have them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cri_proxy.cri.annotations.device_request import named_amounts
from cri_proxy.cri.annotations.values import ReadText
from policies.device_requests import DeviceAsk
from policies.devices import ALLOCATE_HINT, GPU_MEMORY, JOINT_ALLOCATE, PARTITION_SPEC, RESOURCES, full_name
from sysfs.known_words import TYPING_ERROR, did_you_mean
from sysfs.quantity import bytes_text, parse_bytes, parse_mcpu

OF_KOORDINATOR: Final = (ALLOCATE_HINT, JOINT_ALLOCATE, PARTITION_SPEC)
"""Koordinator's annotations of the pod, which say how the amounts are allocated; sorted."""

SHORT_NAMES: Final = frozenset(name.rpartition("/")[2] for name in RESOURCES)
"""Keys of a map of amounts that could be names of containers."""

_EXPECTED: Final = "expected RESOURCE=AMOUNT pairs like nvidia.com/gpu=4,koordinator.sh/rdma=1, or a map of them"


def device_requests(value: object) -> tuple[tuple[str, int], ...]:
    """Return the amounts asked for, by full name; nothing for ``none``. Raises ValueError.

    >>> device_requests("nvidia.com/gpu=4,rdma=1") == device_requests({"koordinator.sh/rdma": 1, "nvidia.com/gpu": "4"})
    True
    """
    return named_amounts(value, _EXPECTED, _resource, _amount)


def _resource(word: str) -> str:
    name = full_name(word)
    if name not in RESOURCES:
        # The name of one vendor is no typing error for that of another.
        known = did_you_mean(name, RESOURCES, least=TYPING_ERROR)
        raise ValueError(f"{word!r:.80} is no resource of devices; {known}")
    return name


def device_quantity(resource: str, text: str) -> int:
    """Return an amount of a resource, in bytes or pieces, as Kubernetes lets it be written. Raises ValueError.

    >>> device_quantity("koordinator.sh/gpu-memory", "1Gi"), device_quantity("koordinator.sh/rdma", "1k")
    (1073741824, 1000)
    """
    if resource == GPU_MEMORY:
        return parse_bytes(text)
    thousandths = parse_mcpu(text)
    if thousandths % 1000:
        raise ValueError(f"expected a whole number, got {text!r}; the API server takes no parts of devices")
    return thousandths // 1000


def with_pod_annotations(asked: DeviceAsk, texts: Mapping[str, ReadText]) -> DeviceAsk:
    """Return it with those of Koordinator's annotations that the pod has, where any amounts are asked for."""
    said = tuple((key, texts[key].text) for key in OF_KOORDINATOR if key in texts) if asked.requests else ()
    return asked if said == asked.annotations else replace(asked, annotations=said)


def requests_text(requests: tuple[tuple[str, int], ...]) -> str:
    """Return the amounts as one writes them.

    >>> requests_text(device_requests({"gpu-core": 50, "gpu-memory": "40Gi"}))
    'koordinator.sh/gpu-core=50,koordinator.sh/gpu-memory=40Gi'
    """
    return ",".join(f"{name}={bytes_text(amount) if name == GPU_MEMORY else amount}" for name, amount in requests)


def _amount(name: str, amount: object) -> int:
    if isinstance(amount, bool) or not isinstance(amount, str | int):
        raise ValueError(f"{name}: expected an amount, not {amount!r:.40}")
    try:
        number = device_quantity(name, str(amount))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if number < 1:
        raise ValueError(f"{name}: {amount} asks for nothing; ask for one or more, or leave the resource out")
    return number
