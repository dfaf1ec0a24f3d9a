"""Write into a container's configuration what it gets for its CDI devices. Pure.

As a runtime that adds CDI devices does: a variable, a device node or a mount of theirs replaces one of the pod's with
the same name or place in the container (the CDI reference implementation, ``ContainerEdits.Apply``).
"""

from collections.abc import Callable, Collection, MutableSequence
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
    variables, nodes, mounts = given.variables, given.nodes, given.mounts
    _drop(config.envs, lambda env: env.key, {name for name, _ in variables})
    for name, value in variables:
        config.envs.add(key=name, value=value.encode())
    _drop(
        config.devices,
        lambda device: clean_path(device.container_path),
        {clean_path(node.container_path) for node in nodes},
    )
    for node in nodes:
        config.devices.add(container_path=node.container_path, host_path=node.host_path, permissions=node.permissions)
    _drop(
        config.mounts,
        lambda mount: clean_path(mount.container_path),
        {clean_path(mount.container_path) for mount in mounts},
    )
    for mount in mounts:
        config.mounts.add(
            container_path=mount.container_path,
            host_path=mount.host_path,
            readonly=mount.is_readonly,
            propagation=_PROPAGATION[mount.propagation],
        )
    if given.group_ids:
        groups = config.linux.security_context.supplemental_groups
        had = frozenset(groups)
        groups.extend(number for number in given.group_ids if number not in had)


def notes_for(config: pb.ContainerConfig, given: Given) -> tuple[str, ...]:
    """Return what this container will not have of it: sentences, those of ``given`` first."""
    moved = [
        node.container_path for node in given.nodes if clean_path(node.container_path) != clean_path(node.host_path)
    ]
    if not (config.linux.security_context.privileged and moved):
        return given.notes
    where = ", ".join(moved)
    return (*given.notes, f"it is privileged, and may have the host's device nodes in place of {where}")


def _drop(items: MutableSequence[M], place_of: Callable[[M], str], places: Collection[str]) -> None:
    """Take the items at these places out of a repeated field."""
    kept = [item for item in items if place_of(item) not in places]
    if len(kept) < len(items):
        copies = [type(item).FromString(item.SerializeToString()) for item in kept]
        del items[:]
        items.extend(copies)
