"""Tell which containers may see no GPU by NVIDIA_VISIBLE_DEVICES: those that have none. Pure.

NVIDIA's runtime mounts what the variable names, also where a pod or an image names it. ``void`` makes it add nothing,
as without the variable (NVIDIA Container Toolkit, docker-specialized).
"""

from collections.abc import Iterable
from typing import Final

from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.texts import VISIBLE_GPUS
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.device_grants import DeviceGrant
from policies.devices import GPU, GPU_VENDOR, NVIDIA, DeviceInventory

NO_GPU: Final = (VISIBLE_GPUS, "void")

_GPU_WORDS: Final = ("gpu", "nvidia")
"""Words of resources, and of kinds of CDI devices, that may be GPUs, or parts of them."""


def has_nvidia_gpus(inventory: DeviceInventory) -> bool:
    """Return whether GPUs are listed that some source says are NVIDIA's.

    >>> from policies.devices import InventoryDevice
    >>> has_nvidia_gpus(DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"), InventoryDevice("gpu", 1))))
    True
    """
    by_label = inventory.node_labels.get(GPU_VENDOR, "")
    return any((gpu.maker or by_label) == NVIDIA.name for gpu in inventory.of(GPU))


def is_privileged(config: pb.ContainerConfig) -> bool:
    """Return whether the container has CAP_SYS_ADMIN: what the container toolkit takes for privileged."""
    security = config.linux.security_context
    added = {name.upper().removeprefix("CAP_") for name in security.capabilities.add_capabilities}
    return security.privileged or bool(added & {"SYS_ADMIN", "ALL"})


def has_no_gpu(config: pb.ContainerConfig, devices: Iterable[DeviceGrant], told: ToldDevices) -> bool:
    """Return whether it is certain that this container was given no GPU, and no part of one.

    ``devices`` are those of its grant. Where the kubelet has not answered, a plugin may have given it one by the
    variable alone.
    """
    claimed = (*(text for named in told.cdi for text in named), *(name.via for name in told.names))
    names = (*told.allocated, *claimed, *cdi_names(config), *(grant.kind for grant in devices))
    return told.is_known and not any(word in name.lower() for name in names for word in _GPU_WORDS)


def visible_gpus(config: pb.ContainerConfig) -> str:
    """Return the GPUs that its pod names to NVIDIA's runtime; '' where it names none."""
    named = [env.value.decode("utf-8", "replace") for env in config.envs if env.key == VISIBLE_GPUS]
    return named[-1] if named and named[-1] not in ("", "none", "void") else ""
