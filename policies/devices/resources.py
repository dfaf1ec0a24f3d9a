"""Name the resources that are devices of the inventory, as Koordinator and the vendors' device plugins do."""

from collections.abc import Mapping
from typing import Final

from policies.devices.model import DEVICE_TYPES, GPU, GPU_MEMORY

GPU_UNITS: Final = "koordinator.sh/gpu"
GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
GPU_SHARED: Final = "koordinator.sh/gpu.shared"
WHOLE_GPUS: Final = ("nvidia.com/gpu", "dcu.com/gpu")
GPU_SHARES: Final = (GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO)
_DOMAIN: Final = "koordinator.sh"
OTHERS: Final[Mapping[str, str]] = {f"{_DOMAIN}/{kind}": kind for kind in DEVICE_TYPES if kind != GPU}
RESOURCES: Final = (*WHOLE_GPUS, GPU_UNITS, *GPU_SHARES, GPU_SHARED, *OTHERS)
"""The resources that are devices here, by full name."""


def full_name(resource: str) -> str:
    """Return the full name of a resource of Koordinator's that is written without its domain.

    ``gpu`` alone stays what it is: it could be 100 units of a GPU, or a whole one.

    >>> full_name("gpu-core"), full_name("nvidia.com/gpu"), full_name("gpu")
    ('koordinator.sh/gpu-core', 'nvidia.com/gpu', 'gpu')
    """
    name = f"{_DOMAIN}/{resource}"
    return name if name in RESOURCES and name != GPU_UNITS else resource
