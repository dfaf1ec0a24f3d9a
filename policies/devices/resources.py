"""Name the resources that are devices of the inventory, as Koordinator and the vendors' device plugins do."""

import re
from collections.abc import Mapping
from typing import Final

from policies.devices.device_types import GPU, KOORDINATOR, RESOURCE_OF, TYPES
from policies.devices.model import GPU_MEMORY

GPU_UNITS: Final = "koordinator.sh/gpu"
GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
GPU_SHARED: Final = "koordinator.sh/gpu.shared"
WHOLE_GPUS: Final = tuple(RESOURCE_OF.values())
GPU_SHARES: Final = (GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO)
_WORD: Final = re.compile(r"[a-z0-9]+")
OTHERS: Final[Mapping[str, str]] = {f"{each.domain}/{each.name}": each.name for each in TYPES if each.name != GPU}
RESOURCES: Final = (*WHOLE_GPUS, GPU_UNITS, *GPU_SHARES, GPU_SHARED, *OTHERS)
"""The resources that are devices here, by full name."""


def type_named(resource: str) -> str:
    """Return the type of devices that the words of a resource's name tell; '' where none is known.

    >>> type_named("nvidia.com/gpu"), type_named("rdma/hca_shared_devices_a"), type_named("devices.kubevirt.io/kvm")
    ('gpu', 'rdma', '')
    """
    words = _WORD.findall(resource.lower())
    return next((each.name for each in TYPES if any(word.startswith(each.words) for word in words)), "")


def full_name(resource: str) -> str:
    """Return the full name of a resource of Koordinator's that is written without its domain.

    ``gpu`` alone stays what it is: it could be 100 units of a GPU, or a whole one.

    >>> full_name("gpu-core"), full_name("nvidia.com/gpu"), full_name("gpu")
    ('koordinator.sh/gpu-core', 'nvidia.com/gpu', 'gpu')
    """
    name = f"{KOORDINATOR}/{resource}"
    return name if name in RESOURCES and name != GPU_UNITS else resource
