"""Frozen values of pod-level resources (KEP-2837): what a pod asks for as a whole, and what its containers share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodTotals:
    """The requests of a container's pod as a whole, by its sandbox; None = no limit.

    ``shares_cpu``: the container has no CPU request of its own, its figures are those of the pod's limit.
    ``shares_memory``: likewise its memory limit, and no request is known (docs/placement.md, section 2).
    """

    cpu_request_mcpu: int
    cpu_limit_mcpu: int | None = None
    memory_limit_bytes: int | None = None
    shares_cpu: bool = False
    shares_memory: bool = False


@dataclass(frozen=True, slots=True)
class PodShare:
    """The part that a container shares with others of its pod: booked and promised once for all of them.

    ``cpu_mcpu`` is what is booked for those that share the pod's CPUs, ``memory_bytes`` what is promised to those that
    share its memory limit. None: the container has a request or limit of its own.
    """

    cpu_mcpu: int | None = None
    memory_bytes: int | None = None
