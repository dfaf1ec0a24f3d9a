"""Write pinning, grant annotation, mount, variables, devices and CPU time into create and update bytes. Pure.

Everything else survives, also fields that this build does not know: protobuf keeps them through parse and serialize. A
``Pinning`` field of None leaves the caller's own value unchanged.
"""

import posixpath
from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.cdi.conversion import Given
from cri_proxy.cri.cdi.write import write_given
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.devices.texts import NO_TEXTS, DeviceTexts
from cri_proxy.cri.linux_resources import shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import CpuKind, Grant, Pinning
from policies.devices import DEVICE_ALLOCATED
from policies.topology_aware import TopologyAwareOptions

RESOURCE_FILES: Final = "/.cri-proxy"  # in the container
DEVICES_VARIABLE: Final = "CRI_PROXY_DEVICES"
CDI_ANNOTATION: Final = "cdi.k8s.io/cri-proxy_devices"
UNLIMITED_QUOTA = -1


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU shares and CFS quota to write; None = keep the kubelet's value."""

    quota_us: int | None = None
    shares: int | None = None


@dataclass(frozen=True, slots=True)
class CdiInjection:
    """Devices for the request: ``names`` for the runtime, in CRI's field or an annotation, or ``resolved``.

    ``is_annotation``: for a runtime that does not read the field. A name that the request has already is left out.
    """

    names: tuple[str, ...] = ()
    is_annotation: bool = False
    resolved: Given | None = None


NO_INJECTION: Final = CdiInjection()


@dataclass(frozen=True, slots=True)
class Created:
    """Additions to a CreateContainerRequest beside the pinning.

    ``grant_text`` None = no annotation. ``files_directory`` is the host's directory behind ``/.cri-proxy``, '' = none.
    ``variables`` are added to its environment. ``devices`` are all that it has of the cost files, ``texts`` say which
    of the inventory's it has.
    """

    grant_text: str | None = None
    cpu_time: CpuTime = CpuTime()
    files_directory: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    texts: DeviceTexts = NO_TEXTS
    injection: CdiInjection = NO_INJECTION


def cpu_time_of(grant: Grant, options: TopologyAwareOptions) -> CpuTime:
    """Return the CPU time to write for a container with this grant.

    Exclusive or isolated: no quota, since all its CPUs are its own, and a whole weight for each CPU. Mixed: the weight
    of its shared fraction. All others keep the kubelet's values.
    """
    if grant.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED):
        return CpuTime(
            UNLIMITED_QUOTA if options.lift_quota else None,
            shares_of(1000 * len(grant.owned)) if options.fraction_shares else None,
        )
    if grant.kind is CpuKind.MIXED and options.fraction_shares:
        return CpuTime(shares=shares_of(grant.shared_mcpu))
    return CpuTime()


def write_create(message: bytes, pinning: Pinning, created: Created = Created()) -> bytes:
    """Return a CreateContainerRequest with this pinning and these additions.

    An incoming annotation of the grant's name is dropped even when there is none to write: a pod must not forge one.
    """
    request = pb.CreateContainerRequest.FromString(message)
    _pin(request.config.linux.resources, pinning)
    _give_time(request.config.linux.resources, created.cpu_time)
    if GRANT_KEY in request.config.annotations:  # asking does not create the parts, pop() would
        del request.config.annotations[GRANT_KEY]
    if created.grant_text is not None:
        request.config.annotations[GRANT_KEY] = created.grant_text
    if created.files_directory:
        # Read-only; relabelled, so that SELinux lets the container read what is in the directory now and, as new
        # files take the type of their directory, what is renamed into it later.
        request.config.mounts.add(
            container_path=RESOURCE_FILES, host_path=created.files_directory, readonly=True, selinux_relabel=True
        )
    if variables := _variables(created):
        _set_variables(request.config.envs, variables)
    if created.texts.annotation:
        request.config.annotations[DEVICE_ALLOCATED] = created.texts.annotation
    if created.injection.resolved is not None:
        write_given(request.config, created.injection.resolved)
    if created.injection.names:
        _ask_for(request.config, created.injection)
    return request.SerializeToString()


def _variables(created: Created) -> Mapping[str, str]:
    """Return all variables to add; what tells a container its devices is not for a CDI specification to say."""
    resolved = created.injection.resolved
    found = dict((*created.variables, *created.texts.variables, *(resolved.variables if resolved is not None else ())))
    if created.devices:
        found[DEVICES_VARIABLE] = ",".join(created.devices)
    return found


def _set_variables(envs: MutableSequence[pb.KeyValue], new: Mapping[str, str]) -> None:
    """Add these in place of those of the same names: a pod's NVIDIA_VISIBLE_DEVICES would show it GPUs of others."""
    for index in reversed(range(len(envs))):
        if envs[index].key in new:
            del envs[index]
    envs.extend(pb.KeyValue(key=name, value=value.encode()) for name, value in new.items())


def _ask_for(config: pb.ContainerConfig, injection: CdiInjection) -> None:
    """Name CDI devices to the runtime."""
    known = frozenset(cdi_names(config))
    missing = [name for name in injection.names if name not in known]
    if injection.is_annotation and missing:
        earlier = config.annotations.get(CDI_ANNOTATION, "")
        config.annotations[CDI_ANNOTATION] = ",".join([*filter(None, [earlier]), *missing])
    elif missing:
        config.CDI_devices.extend(pb.CDIDevice(name=name) for name in missing)


def brings_own_mount(mounts: Iterable[pb.Mount]) -> bool:
    """Whether the pod itself mounts something at ``/.cri-proxy`` or below: that stays, and ours is left out.

    >>> brings_own_mount([pb.Mount(container_path="/.cri-proxy/")]), brings_own_mount([pb.Mount(container_path="/x")])
    (True, False)
    """
    paths = (posixpath.normpath("/" + mount.container_path.lstrip("/")) for mount in mounts)
    return any(path == RESOURCE_FILES or path.startswith(RESOURCE_FILES + "/") for path in paths)


def write_update(message: bytes, pinning: Pinning, cpu_time: CpuTime = CpuTime()) -> bytes:
    """Return the kubelet's UpdateContainerResourcesRequest with our cpuset fields in place of its own.

    ``cpu_time`` replaces what the kubelet sent: its own figures would undo ours.
    """
    request = pb.UpdateContainerResourcesRequest.FromString(message)
    _pin(request.linux, pinning)
    _give_time(request.linux, cpu_time)
    return request.SerializeToString()


def update_request(container_id: str, pinning: Pinning) -> bytes:
    """Return an UpdateContainerResourcesRequest with cpuset fields only, so that nothing else changes."""
    request = pb.UpdateContainerResourcesRequest(container_id=container_id)
    _pin(request.linux, pinning)
    return request.SerializeToString()


def _pin(resources: pb.LinuxContainerResources, pinning: Pinning) -> None:
    """Set the fields that the pinning has. Raises ValueError for an empty set: to a runtime it means "no change"."""
    for name, ids in (("CPU", pinning.cpus), ("memory node", pinning.mems)):
        if ids is not None and not ids:
            raise ValueError(f"an empty {name} set cannot be written; leave the field out instead")
    if pinning.cpus is not None:
        resources.cpuset_cpus = str(pinning.cpus)
    if pinning.mems is not None:
        resources.cpuset_mems = str(pinning.mems)


def _give_time(resources: pb.LinuxContainerResources, cpu_time: CpuTime) -> None:
    """Set shares and quota where they are ours; the period stays."""
    if cpu_time.quota_us is not None:
        resources.cpu_quota = cpu_time.quota_us
    if cpu_time.shares is not None:
        resources.cpu_shares = cpu_time.shares
