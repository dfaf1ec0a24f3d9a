"""Find a pod's QoS class, from its cgroup parent or else from a container's resources. Pure.

The kubelet puts a pod under ``[ROOT]/kubepods[/burstable|/besteffort]/podUID`` (driver cgroupfs) or
``[ROOT-]kubepods[-burstable|-besteffort]-podUID.slice`` (driver systemd); a Guaranteed pod has no middle part.
"""

import re

from cri_proxy.cri.linux_resources import MIN_SHARES, mcpu_of_quota, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass

_CGROUPFS = re.compile(r"(?:^|/)kubepods(?:/(burstable|besteffort))?/pod[^/]+(?:/|$)")
_SYSTEMD = re.compile(r"(?:^|[/-])kubepods(?:-(burstable|besteffort))?-pod[^/:]+\.slice(?:[:/]|$)")
_LEVELS = {None: QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}


def qos_of_cgroup(path: str) -> QosClass | None:
    """Return the class in a pod's cgroup parent or a path below it; None when the kubelet did not make it.

    >>> qos_of_cgroup("kubelet-kubepods-burstable-pod6c2f_11.slice")
    <QosClass.BURSTABLE: 'Burstable'>
    """
    match = _SYSTEMD.search(path) or _CGROUPFS.search(path)
    return _LEVELS[match.group(1)] if match else None


def qos_of_resources(resources: pb.LinuxContainerResources) -> QosClass:
    """Return the class of a pod with only this container: Guaranteed when its limits equal its requests."""
    limit_mcpu = mcpu_of_quota(resources.cpu_quota, resources.cpu_period)
    if not asks_for_something(resources):
        return QosClass.BEST_EFFORT
    if limit_mcpu is None or resources.memory_limit_in_bytes <= 0:
        return QosClass.BURSTABLE
    if resources.cpu_shares and resources.cpu_shares != shares_of(limit_mcpu):
        return QosClass.BURSTABLE
    return QosClass.GUARANTEED


def asks_for_something(resources: pb.LinuxContainerResources) -> bool:
    """Return whether a CPU or memory figure is set, which no container of a BestEffort pod has."""
    return resources.cpu_shares > MIN_SHARES or resources.cpu_quota > 0 or resources.memory_limit_in_bytes > 0


def qos_of(cgroup: str, resources: pb.LinuxContainerResources) -> tuple[QosClass, str]:
    """Return the class and the field that it was read from."""
    # The cgroup comes first: a container without figures may be of any class (pod-level resources, ephemeral ones).
    qos = qos_of_cgroup(cgroup)
    if qos is None:
        return qos_of_resources(resources), "linux.resources"
    if qos is QosClass.BEST_EFFORT and asks_for_something(resources):
        return QosClass.BURSTABLE, "linux.resources, against cgroup_parent"
    return qos, "cgroup_parent"
