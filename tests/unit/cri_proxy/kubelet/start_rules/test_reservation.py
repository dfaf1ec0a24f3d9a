"""What the kubelet keeps from pods."""

import pytest

from tests.fakes.kubelet_starts import problems, settings


def test_compressible_reservations_are_enforced_from_1_32_on() -> None:
    given = settings("kubeReservedCgroup: /r\nenforceNodeAllocatable: [pods, kube-reserved-compressible]")
    assert problems(given, (1, 32)) == problems(given) == []
    (found,) = problems(given, (1, 31))
    assert [str(edit) for edit in found.edits] == ["set enforceNodeAllocatable: [pods] in /k.yaml"]


@pytest.mark.parametrize(
    ("text", "why", "remedy"),
    [
        (
            "kubeReserved: {cpu: one}",
            "expected a quantity like 750m or 2, got 'one'",
            "set kubeReserved.cpu: 500m in /k.yaml",
        ),
        ('systemReserved: {cpu: "-1"}', "got '-1'", "set systemReserved.cpu: 500m in /k.yaml"),
        ("kubeReserved: {memory: 1 GB}", "expected a quantity like 2Gi", "remove kubeReserved.memory from /k.yaml"),
        (
            "systemReserved: {hugepages-1Gi: 2Gi}",
            "and the kubelet reserves cpu, memory, ephemeral-storage, pid",
            "remove systemReserved.hugepages-1Gi from /k.yaml",
        ),
        (
            "systemReserved: {memory: 60Gi}\nkubeReserved: {memory: 5Gi}",
            "more memory is reserved than the 64Gi of this node",
            "set systemReserved.memory: 100Mi in /k.yaml",
        ),
    ],
)
def test_an_amount_that_cannot_be_reserved_is_said_with_its_remedy(text: str, why: str, remedy: str) -> None:
    (found,) = problems(settings(text))
    assert why in found.text
    assert ", ".join(map(str, found.edits)) == remedy


def test_every_resource_that_can_be_reserved_is_left_alone() -> None:
    text = 'systemReserved: {cpu: 500m, memory: 1.5Gi, ephemeral-storage: 1e9, pid: "100"}'
    assert problems(settings(text)) == []
