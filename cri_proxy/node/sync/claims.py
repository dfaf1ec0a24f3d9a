"""Find the CPUs that another allocator chose for a container that runs without a grant; leave it there or own them.

What proves a claim is as at creation (docs/adr/0015-claims.md): names of CDI devices that come from the kubelet, looked
up in the node's specification files, or the annotation of Koordinator's scheduler. containerd keeps the names; with
another runtime the kubelet is asked for them. A variable of the process proves nothing: a pod or an image may set it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.cri.cdi.variables import VariablesOf, no_variables
from cri_proxy.cri.claim import with_claim
from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.devices.names import NO_PROOFS, Proofs
from cri_proxy.cri.pod_amounts import pod_request_mcpu
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import ReadRequest
from cri_proxy.cri.read_status import Existing
from cri_proxy.cri.status_fields import info_of, pod_figures
from policies.base import Allocations, ContainerKey, CpuKind, Reinstated, Rejected, Request
from policies.policy import Policy
from sysfs.cpuset import CpuSet

_NO_REASON: Final = "the CPUs that were chosen for it cannot be its own"


async def nothing_told(_: Request) -> ToldDevices:
    """Return that the kubelet names no device: for a node without one."""
    return NOTHING_TOLD


ProofsOf = Callable[[Sequence[str]], Awaitable[Proofs]]
"""Returns the hardware behind CDI names, by name."""


async def nothing_proved(_: Sequence[str]) -> Proofs:
    """Return that nothing is known of the hardware behind CDI names: for a node without files."""
    return NO_PROOFS


@dataclass(frozen=True, slots=True)
class ClaimSources:
    """Where claims of containers are looked up that the proxy did not see created.

    ``variables_of`` reads the specification files of CDI devices and raises FilesFailed; ``told_of`` asks the kubelet
    for the devices of a container, ``proofs_of`` returns the hardware behind CDI names.
    """

    variables_of: VariablesOf = no_variables
    told_of: Callable[[Request], Awaitable[ToldDevices]] = nothing_told
    proofs_of: ProofsOf = nothing_proved

    async def claimed(
        self, request: Request, found: Existing, sandbox: pb.PodSandboxStatusResponse, rules: AnnotationRules
    ) -> Request:
        """Return the request with its claim, if there is one. Raises FilesFailed where that cannot be known."""
        names = found.cdi_names
        # Only containerd keeps the names; the kubelet knows them with every runtime.
        if not names and found.may_have_claim:
            names = tuple(name for name, _ in (await self.told_of(request)).cdi)
        variables = await self.variables_of(names) if names else ()
        figures = pod_figures(info_of(sandbox.info))
        # A pod's author can write Koordinator's annotation: it counts where the pod requests what it names.
        request = replace(request, pod_request_mcpu=pod_request_mcpu(request.pod.qos, figures))
        return with_claim(ReadRequest(request), variables, sandbox.status.annotations, rules).request


@dataclass(frozen=True, slots=True)
class Settled:
    """The places of all containers, and the claims of which CPUs are not available, with the reasons."""

    reinstated: Reinstated
    missed: Mapping[ContainerKey, str]


def settle(
    policy: Policy,
    held: Allocations,
    requests: Sequence[Request],
    live: Mapping[ContainerKey, CpuSet],
    found: Collection[ContainerKey],
) -> Settled:
    """Place the requests beside what is held; leave out who would not get all CPUs of the claim that was ``found``.

    Another container may own some of them by now, or they are reserved: moving it off what its allocator decided would
    be wrong for both. It stays on its ``live`` CPUs, which are withheld from exclusive use.
    """
    missed: dict[ContainerKey, str] = {}
    # Ends: each round leaves out a request at least.
    while True:
        result = policy.reinstate(*policy.at_live(held, requests, live))
        short = [r for r in requests if r.container in found and _misses(r, result.allocations)]
        if not short:
            return Settled(result, missed)
        missed |= {request.container: _why_not(policy, result.allocations, request) for request in short}
        requests = [request for request in requests if request.container not in missed]
        cpus = (live.get(request.container, policy.machine.online) for request in short)
        # One that can run anywhere has chosen nothing: to withhold all CPUs for it would leave none to own.
        own = [each for each in cpus if each != policy.machine.online]
        held = replace(held, withheld=CpuSet.of_masks(cpus.mask for cpus in (held.withheld, *own)))


def _why_not(policy: Policy, held: Allocations, request: Request) -> str:
    """Return why this container cannot have all of its claim beside what is held: as if it were created now."""
    decision = policy.decide(held.without(request.container), request)
    return decision.reason.text if isinstance(decision, Rejected) else _NO_REASON


def _misses(request: Request, now: Allocations) -> bool:
    grant, claim = now.get(request.container), request.claim
    # A preserved one keeps the cpuset that it has, whatever was chosen.
    return grant is not None and claim is not None and grant.kind is not CpuKind.PRESERVE and grant.owned != claim.cpus
