"""Edits CRI messages as bytes (pure): our cpuset fields and our annotation; everything else survives.

Fields that this build does not know survive too, because protobuf keeps them through parse and serialize. A
``Pinning`` field of None is not ours: what the caller sent there stays.
"""

from cri_proxy.cri.annotations import GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import Pinning


def write_create(message: bytes, pinning: Pinning, grant_annotation: str | None) -> bytes:
    """A CreateContainerRequest with this pinning and our annotation.

    An incoming annotation of our name is dropped even when there is none to write: a pod must not forge a grant.
    """
    request = pb.CreateContainerRequest.FromString(message)
    _pin(request.config.linux.resources, pinning)
    if GRANT_KEY in request.config.annotations:  # asking does not create the parts, pop() would
        del request.config.annotations[GRANT_KEY]
    if grant_annotation is not None:
        request.config.annotations[GRANT_KEY] = grant_annotation
    return request.SerializeToString()


def write_update(message: bytes, pinning: Pinning) -> bytes:
    """The kubelet's UpdateContainerResourcesRequest with our cpuset fields in the place of its own."""
    request = pb.UpdateContainerResourcesRequest.FromString(message)
    _pin(request.linux, pinning)
    return request.SerializeToString()


def update_request(container_id: str, pinning: Pinning) -> bytes:
    """An UpdateContainerResourcesRequest of our own: only cpuset fields, so that nothing else changes."""
    request = pb.UpdateContainerResourcesRequest(container_id=container_id)
    _pin(request.linux, pinning)
    return request.SerializeToString()


def _pin(resources: pb.LinuxContainerResources, pinning: Pinning) -> None:
    """Set the fields that are ours. Raises ValueError for an empty set: to a runtime it means "no change"."""
    for name, ids in (("CPU", pinning.cpus), ("memory node", pinning.mems)):
        if ids is not None and not ids:
            raise ValueError(f"an empty {name} set cannot be written; leave the field out instead")
    if pinning.cpus is not None:
        resources.cpuset_cpus = str(pinning.cpus)
    if pinning.mems is not None:
        resources.cpuset_mems = str(pinning.mems)
