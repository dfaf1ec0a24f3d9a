"""What every policy is given: the CPUs that it may use on this machine."""

from dataclasses import dataclass

from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The CPUs that may be used at all, and those of them that are kept for the system.

    A policy with options of its own names a subclass in its line of ``policies/registry.py``.
    """

    available: CpuSet = CpuSet()
    reserved: CpuSet = CpuSet()  # those outside ``available`` have no effect
