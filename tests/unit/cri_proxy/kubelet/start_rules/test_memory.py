"""Reservations of memory for NUMA nodes, and the Static memory manager."""

import pytest

from tests.fakes.kubelet_starts import problems, reasons, settings


def static(*amounts: str, more: str = "") -> str:
    """A configuration with the policy Static and these amounts on nodes 0, 1 and so on."""
    entries = ", ".join(f"{{numaNode: {node}, limits: {{{limits}}}}}" for node, limits in enumerate(amounts))
    return f"memoryManagerPolicy: Static\nreservedMemory: [{entries}]\n{more}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (static("memory: 100Mi"), ""),
        (static("memory: 60Mi", "memory: 40Mi"), ""),
        (static("memory: 1Gi"), "1Gi in all are not the 100Mi that are kept from pods"),
        (static("memory: 1124Mi", more="kubeReserved: {memory: 1Gi}"), ""),
        (static("memory: 2148Mi", more="kubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 1Gi}"), ""),
        (
            static("memory: 1Gi", more="kubeReserved: {memory: 1Gi}"),
            "1Gi in all are not the 1124Mi that are kept from pods (kubeReserved.memory: 1Gi (/k.yaml) and "
            "evictionHard.memory.available: 100Mi (the default))",
        ),
        (static("memory: 1Gi", more="kubeReserved: {memory: 1Gi}\nevictionHard: {nodefs.available: 5%}"), ""),
        (
            static(
                "memory: 1124Mi",
                more="kubeReserved: {memory: 1Gi}\nevictionHard: {nodefs.available: 5%}\n"
                "mergeDefaultEvictionSettings: true",
            ),
            "",
        ),
        (static("memory: 300Mi", more="evictionHard: {memory.available: 300Mi}"), ""),
        (static("memory: 300Mi", more="evictionHard: {memory.available: 5%}"), ""),
        (static("memory: 100Mi, hugepages-1Gi: 2Gi"), "hugepages-1Gi cannot be equal to what"),
        (static("memory: 50Mi", "memory: 25Mi", "memory: 25Mi"), "there is no NUMA node 2"),
        ("reservedMemory: [{numaNode: 5, limits: {memory: 1Gi}}]", ""),
    ],
)
def test_the_sum_of_a_static_memory_manager_is_what_the_node_keeps_from_pods(text: str, why: str) -> None:
    assert why in reasons(text)
    assert bool(reasons(text)) == bool(why)


def test_the_threshold_of_a_flag_counts_as_that_of_the_file() -> None:
    text = static("memory: 1Gi", more="evictionHard: {memory.available: 300Mi}")
    assert problems(settings(text, "--eviction-hard=memory.available<1Gi,nodefs.available<5%")) == []
    (found,) = problems(settings(text))
    assert "not the 300Mi" in found.text
    assert [str(edit) for edit in found.edits] == [
        "set memoryManagerPolicy: None in /k.yaml",
        "delete /var/lib/kubelet/memory_manager_state",
    ]


def test_nodes_of_an_unknown_machine_are_not_judged() -> None:
    assert problems(settings(static("memory: 50Mi", "memory: 25Mi", "memory: 25Mi")), nodes="") == []
