"""Each remedy of doctor, applied to the files of any node, leaves a kubelet that starts by the kubelet's own rules."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.doctor.catalog import Finding
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.doctor.report import examine
from cri_proxy.doctor.rules.managers import is_off, start_host
from cri_proxy.kubelet.edits import Edit
from cri_proxy.kubelet.settings import CPU_POLICY, ENDPOINT, MEMORY_POLICY
from cri_proxy.kubelet.start_rules.rules import start_problems
from tests.fakes.applied_edits import apply
from tests.fakes.made_up_roots import ROOTS, MadeUpRoot, looked_at, written

# Lines of a KubeletConfiguration, of which some exclude each other.
LINES = (
    "cpuManagerPolicy: static",
    "cpuManagerPolicy: Static",
    'cpuManagerPolicyOptions: {full-pcpus-only: "true"}',
    'cpuManagerPolicyOptions: {align-by-socket: "true", nothing: "true"}',
    'cpuManagerPolicyOptions: {strict-cpu-reservation: "yes"}',
    "memoryManagerPolicy: none",
    "memoryManagerPolicy: Static",
    "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]",
    "topologyManagerPolicy: single-numa-node",
    "topologyManagerScope: numa",
    'reservedSystemCPUs: "0"',
    'reservedSystemCPUs: "0,99"',
    'kubeReserved: {cpu: "1"}',
    'kubeReserved: {cpu: one, hugepages-1Gi: "1"}',
    "reservedMemory: [{numaNode: 7, limits: {memory: 1Gi}}]",
    'systemReserved: {memory: "999Gi"}',
    "featureGates: {CPUManagerPolicyOptions: false, TopologyManagerPolicyOptions: false}",
    'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "4"}',
    'systemReserved: {cpu: "99"}',
    "kubeReservedCgroup: /runtime",
    "enforceNodeAllocatable: [pods, system-reserved]",
    "enforceNodeAllocatable: [pods, kube-reserved-compressible]",
    "cpuManagerReconcilePeriod: soon",
    "containerRuntimeEndpoint: tcp://1.2.3.4:5",
)
CONFIGURED = tuple(name for name, root in ROOTS.items() if root.config)


def reasons(facts: HostFacts) -> set[str]:
    """Why the kubelet would end at its next start, each as the first key to change, or as a former state."""
    assert facts.cpus is not None
    found = {problem.edits[0].key for problem in start_problems(facts.kubelet.next, start_host(facts))}
    return found | {finding.code for finding in examine(facts).findings if finding.code == "manager-state"}


def remedies(facts: HostFacts) -> list[Finding]:
    return [finding for finding in examine(facts).findings if finding.edits]


def is_there(root: Path, edit: Edit) -> bool:
    """Whether the file that this edit deletes is still there; what a process of the root runs with stays as it is."""
    return (root / edit.place.lstrip("/")).exists()


def apply_all(root: Path) -> HostFacts:
    """Apply what doctor says, in its order, until it has no more to say, a few rounds at most."""
    for _ in range(6):
        facts = looked_at(root)
        edits = [edit for finding in remedies(facts) for edit in finding.edits if edit.key or is_there(root, edit)]
        if not edits:
            return facts
        for edit in edits:
            apply(root, edit)
    raise AssertionError(remedies(looked_at(root)))


def check(root: MadeUpRoot) -> None:
    with written(root) as place:
        before = looked_at(place)
        found = remedies(before)
        assert all(str(edit) in finding.remedy for finding in found for edit in finding.edits)
    for finding in found:
        with written(root) as place:
            for edit in finding.edits:
                apply(place, edit)
            assert reasons(looked_at(place)) <= reasons(before), finding
    with written(root) as place:
        after = apply_all(place)
    assert reasons(after) == set()
    assert all(is_off(after.kubelet.next.get(key).value) for key in (CPU_POLICY, MEMORY_POLICY))


@pytest.mark.parametrize("name", ROOTS)
def test_each_remedy_leaves_a_kubelet_that_starts(name: str) -> None:
    check(ROOTS[name])


@pytest.mark.parametrize("name", CONFIGURED)
def test_all_remedies_lead_to_the_proxy(name: str) -> None:
    with written(ROOTS[name]) as place:
        after = apply_all(place)
    assert after.proxy.is_named_by(after.kubelet.next.get(ENDPOINT).value)


@given(name=st.sampled_from(CONFIGURED), lines=st.sets(st.sampled_from(LINES), max_size=6))
def test_remedies_of_any_configuration_leave_a_kubelet_that_starts(name: str, lines: set[str]) -> None:
    by_key = {line.partition(":")[0]: line for line in sorted(lines)}
    check(ROOTS[name].with_config("\n".join(by_key.values())))
