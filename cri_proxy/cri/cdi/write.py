"""Write into a container's configuration what it gets for its CDI devices, but variables. Pure.

As a runtime that adds CDI devices does: a device node or a mount of theirs replaces one of the pod's at the same place
in the container (the CDI reference implementation, ``ContainerEdits.Apply``).
"""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from cri_proxy.cri.cdi.conversion import Given, clean_path
from cri_proxy.cri.proto import cri_v1_pb2 as pb

M = TypeVar("M", bound=Message)

_PROPAGATION: Final = {
    "private": pb.PROPAGATION_PRIVATE,
    "host-to-container": pb.PROPAGATION_HOST_TO_CONTAINER,
    "bidirectional": pb.PROPAGATION_BIDIRECTIONAL,
}


def write_given(config: pb.ContainerConfig, given: Given) -> None:
    """Change this configuration."""
    nodes = [pb.Device(container_path=n.path, host_path=n.host_path, permissions=n.permissions) for n in given.nodes]
    mounts = [
        pb.Mount(
            container_path=mount.container_path,
            host_path=mount.host_path,
            readonly=mount.is_readonly,
            propagation=_PROPAGATION[mount.propagation],
        )
        for mount in given.mounts
    ]
    _replace(config.devices, nodes, lambda device: clean_path(device.container_path))
    _replace(config.mounts, mounts, lambda mount: clean_path(mount.container_path))
    if given.group_ids:
        groups = config.linux.security_context.supplemental_groups
        had = frozenset(groups)
        groups.extend(number for number in given.group_ids if number not in had)


def notes_for(config: pb.ContainerConfig, given: Given) -> tuple[str, ...]:
    """Return sentences about additions that this container will not have, those of ``given`` first."""
    moved = [node.path for node in given.nodes if clean_path(node.path) != clean_path(node.host_path)]
    if not (config.linux.security_context.privileged and moved):
        return given.notes
    where = ", ".join(moved)
    return (*given.notes, f"it is privileged, and may have the host's device nodes in place of {where}")


def _replace(items: MutableSequence[M], new: Sequence[M], place_of: Callable[[M], str]) -> None:
    """Add entries in place of those that are at the same places."""
    places = set(map(place_of, new))
    for index in reversed(range(len(items))):
        if place_of(items[index]) in places:
            del items[index]
    items.extend(new)
