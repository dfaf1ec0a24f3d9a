import pytest

from cri_proxy.inventory.file import DIALECT, read_inventory
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices import GpuPartition


def read(text: str) -> tuple[GpuPartition, ...]:
    """The partitions of a table that begins in the second line of an inventory."""
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    (root,) = YamlField.documents(f"partitions:\n{lines}", "node.yaml", DIALECT)
    return read_inventory(root).partitions or ()


def test_partitions_are_read_with_our_keys_and_with_koordinators() -> None:
    assert read("1: [{minors: [3]}]\n2: [{minors: [1, 0], score: 2, bandwidth: 400Gi, link: NVLink}]") == (
        GpuPartition((3,)),
        GpuPartition((0, 1), 2, 400 << 30, "NVLink"),
    )
    theirs = '{"2": [{"minors": [0, 1], "allocationScore": 4, "ringBusBandwidth": "1k", "gpuLinkType": "PCIe"}]}'
    assert read(theirs) == (GpuPartition((0, 1), 4, 1000, "PCIe"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2:\n- {minors: [0]}", "node.yaml:3: partitions.2: minors has 1 GPUs; give 2, or move it to 1"),
        ("2: [{score: 1}]", "node.yaml:2: partitions.2: minors is missing; give the GPUs of the partition as a list"),
        ("2: [{minors: [0, 0]}]", "node.yaml:2: partitions.2.minors: a GPU stands twice in [0, 0]"),
        ("1: [{minors: [a]}]", "node.yaml:2: partitions.1.minors: expected a number from 0 to 65535, got 'a'"),
        ("1: [{minor: [0]}]", "node.yaml:2: partitions.1: unknown key 'minor'; did you mean minors?"),
    ],
)
def test_an_error_names_the_line_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert str(caught.value) == said
