"""Sentences about CPUs that another allocator has chosen: which a container has, and why it cannot have them."""

from collections.abc import Sequence
from typing import Final

from policies.base import Grant, Reason
from policies.claims import CpuClaim
from policies.hardware.pools import PoolTree
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import CpuSet
from sysfs.text import are, numbered, some

_SHOWN: Final = 4  # owners in a sentence


def decided_elsewhere(claim: CpuClaim, grant: Grant) -> Reason:
    """The container has the CPUs that the other allocator chose, or those of them that are available."""
    text = f"{are('CPU', grant.owned)} its own, decided elsewhere by {claim.source}, in {grant.pool}"
    return Reason(ReasonCode.CLAIMED, text)


def cut(claim: CpuClaim, left: CpuSet) -> Reason:
    """A container that exists keeps the available CPUs of its claim."""
    text = f"{claim.source} claims {numbered('CPU', claim.cpus)}, and {are('CPU', claim.cpus - left)} not available"
    return Reason(ReasonCode.CLAIM_CUT, f"{text}: it has {numbered('CPU', left)} until they are")


def came_back(claim: CpuClaim, back: CpuSet) -> Reason:
    """CPUs of a claim that were not available are available again."""
    return Reason(ReasonCode.CLAIM_CUT, f"{are('CPU', back)} available again, of those that {claim.source} claims")


def other_size(claim: CpuClaim, requested_mcpu: int) -> Reason:
    """The other allocator chose another number of CPUs than the kubelet counts for the container."""
    text = f"{claim.source} has {len(claim.cpus)} of them, where {requested_mcpu}m are requested"
    return Reason(ReasonCode.CLAIM_SIZE, f"{text}: what was decided elsewhere counts")


def unpaid(claim: CpuClaim, requested_mcpu: int, others_mcpu: int) -> Reason:
    """A claim that the author of the pod may have written does not count: other containers of the pod have too much."""
    text = f"{claim.source} names {numbered('CPU', claim.cpus)}, which do not count: the pod requests {requested_mcpu}m"
    return Reason(ReasonCode.CLAIM_UNPAID, f"{text}, of which its other containers have {others_mcpu}m")


def of_pod(claim: CpuClaim, requested_mcpu: int) -> Reason:
    """The container runs on the CPUs of its pod's claim, which are all that the pod pays for."""
    text = f"its pod requests {requested_mcpu}m, and has {numbered('CPU', claim.cpus)} of that by {claim.source}"
    return Reason(ReasonCode.CLAIM_UNPAID, f"{text}: it runs there with the others")


def contested(cpus: CpuSet) -> Reason:
    """Containers that cri-proxy does not pin may run on CPUs of the claim."""
    who = "containers with a cpuset of their own, which cri-proxy leaves alone"
    return Reason(ReasonCode.CLAIM_CONTESTED, f"{numbered('CPU', cpus)}: {who}, may run there too")


def contested_by_stuck(claim: CpuClaim, cpus: CpuSet) -> Reason:
    """Others cannot be moved away from the CPUs, and no others do."""
    stuck = f"other containers could not be moved from {numbered('CPU', cpus)}, and it may have no others"
    text = f"{claim.source} claims {numbered('CPU', claim.cpus)}; {stuck}"
    return Reason(ReasonCode.CLAIM_REFUSED, f"{text}: restart or remove the containers that explain and status name")


def unavailable(claim: CpuClaim, cpus: CpuSet, tree: PoolTree) -> Reason:
    """Some of the CPUs are not on the machine, offline, reserved, or not available."""
    machine, root = tree.machine, tree.root
    missing = cpus - machine.online - machine.offline
    if missing:
        known = machine.online | machine.offline
        return _refused(claim, missing, f"not on this machine, which has {known}: choose others in its allocator")
    offline = cpus - machine.online
    if offline:
        return _refused(claim, offline, "offline: bring them online, or choose others in its allocator")
    reserved = CpuSet(cpus.mask & root.reserved)
    if reserved:
        remedy = "reserve the same CPUs in its allocator, or change reservedResources"
        return _refused(claim, reserved, f"reserved for the system: {remedy}")
    remedy = "add them to availableResources, or choose others in its allocator"
    return _refused(claim, CpuSet(cpus.mask & ~root.cpus), f"not among the available ones: {remedy}")


def owned(claim: CpuClaim, cpus: CpuSet, others: Sequence[Grant]) -> Reason:
    """Other containers own some of the CPUs."""
    shared = CpuSet.of_masks(grant.owned.mask & cpus.mask for grant in others)
    names = some([*map(_owner, others)], _SHOWN)
    return _refused(claim, shared, f"owned by {names}: end that, or choose others in its allocator")


def _owner(grant: Grant) -> str:
    by = grant.request.claim
    return f"{grant.request.pod.name}/{grant.container.name}{f' (by {by.source})' if by is not None else ''}"


def too_few_left(claim: CpuClaim, cpus: CpuSet, granted_mcpu: int) -> Reason:
    """Without the CPUs the shared ones do not cover what containers that share are granted."""
    text = f"{claim.source} claims {numbered('CPU', cpus)}, and without them too few are left for containers that share"
    remedy = "end some, or claim fewer CPUs"
    return Reason(ReasonCode.CLAIM_REFUSED, f"{text}, which were granted {granted_mcpu}m: {remedy}")


def _claims(claim: CpuClaim, problem: CpuSet) -> str:
    verb = "is" if len(problem) == 1 else "are"
    part = f"which {verb}" if problem == claim.cpus else f"of which {numbered('CPU', problem)} {verb}"
    return f"{claim.source} claims {numbered('CPU', claim.cpus)}, {part}"


def _refused(claim: CpuClaim, problem: CpuSet, why: str) -> Reason:
    return Reason(ReasonCode.CLAIM_REFUSED, f"{_claims(claim, problem)} {why}")
