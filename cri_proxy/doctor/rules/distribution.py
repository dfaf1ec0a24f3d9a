"""Judge the distribution of Kubernetes: can we be used there, its own runtime, where settings last, KubeVirt. Pure."""

from collections.abc import Iterator

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts


def distribution(facts: HostFacts) -> Iterator[Finding]:
    """Some leave no place between kubelet and runtime; others keep the settings in a place of their own."""
    found = facts.kubelet.distribution
    if found.why_not:
        yield FindingCode.UNSUPPORTED.finding(
            f"this node runs {found.name}, where cri-proxy cannot be used: {found.why_not}",
            "use it on nodes of another distribution",
        )
    elif found.is_noted:
        remark = f"; {found.remark}" if found.remark else ""
        yield FindingCode.DISTRIBUTION.finding(
            f"this node is of {found.name}: settings of the kubelet last in {found.place}{remark}".replace("`", ""),
            f"after a change: {found.reload}",
        )


def own_runtime(facts: HostFacts) -> Iterator[Finding]:
    """A containerd that the distribution brings must be the one behind cri-proxy."""
    found, runtime = facts.kubelet.distribution, facts.runtime
    if found.runtime and runtime.socket and runtime.socket != found.runtime:
        yield FindingCode.RUNTIME_ELSEWHERE.finding(
            f"{found.name} runs a containerd of its own behind {found.runtime}, and cri-proxy's runtimeEndpoint is "
            f"{runtime.socket}",
            f"set runtimeEndpoint: unix://{found.runtime} in cri-proxy's configuration",
        )


def kubevirt(facts: HostFacts) -> Iterator[Finding]:
    """KubeVirt labels nodes by the kubelet's CPU manager."""
    if facts.kubevirt:
        yield FindingCode.KUBEVIRT.finding(
            f"KubeVirt runs here ({facts.kubevirt}): with the CPU manager's policy none, which cri-proxy needs, it "
            "labels the node cpumanager=false, and VMs with dedicatedCpuPlacement stay Pending where no other node "
            "takes them",
            "keep such VMs on nodes without cri-proxy, or give them Guaranteed resources without dedicatedCpuPlacement",
        )


RULES = (distribution, own_runtime, kubevirt)
