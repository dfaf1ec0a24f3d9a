import json

import pytest

from policies.device_grants import ExclusivePolicy
from policies.devices import (
    ALLOCATE_HINT,
    DEVICE_TYPES,
    JOINT_ALLOCATE,
    PARTITION_SPEC,
    AnnotationError,
    read_annotations,
)
from policies.devices.annotations import (
    AllocateStrategy,
    DeviceAnnotations,
    DeviceHint,
    JointAllocate,
    PartitionSpec,
    RequiredScope,
)

TYPES = ", ".join(DEVICE_TYPES)


def test_other_annotations_are_left_alone() -> None:
    assert read_annotations({"example.com/note": "{"}) == DeviceAnnotations()


def test_the_first_type_is_the_primary_one_and_a_repeated_type_counts_once() -> None:
    joint = read_annotations({JOINT_ALLOCATE: '{"deviceTypes": ["rdma", "gpu", "rdma"], "requiredScope": "SamePCIe"}'})
    assert joint.joint == JointAllocate(("rdma", "gpu"), is_same_pcie=True)


def test_the_scope_of_the_proposals_text_is_understood_with_a_warning() -> None:
    found = read_annotations({JOINT_ALLOCATE: '{"deviceTypes": ["gpu"], "requiredScope": "PCIe"}'})
    assert found.joint == JointAllocate(("gpu",), is_same_pcie=True)
    assert found.warnings == (f"{JOINT_ALLOCATE}: requiredScope: PCIe is read as SamePCIe; write SamePCIe",)


def test_a_hint_is_read_and_an_empty_vf_selector_counts_as_given() -> None:
    hints: dict[str, object] = {
        "rdma": {
            "selector": None,
            "vfSelector": {},
            "allocateStrategy": "RequestsAsCount",
            "requiredTopologyScope": "NUMANode",
            "exclusivePolicy": "PCIeLevel",
        },
        "gpu": None,
    }
    found = read_annotations({ALLOCATE_HINT: json.dumps(hints)})
    hint = found.hint("rdma")
    assert hint.vf_selector is not None
    assert (hint.strategy, hint.scope, hint.exclusive) == (
        AllocateStrategy.REQUESTS_AS_COUNT,
        RequiredScope.NUMA_NODE,
        ExclusivePolicy.PCIE_LEVEL,
    )
    assert found.hint("gpu") == DeviceHint()


def test_a_partition_spec_says_which_partitions_will_do() -> None:
    text = '{"allocatePolicy": "Restricted", "ringBusBandwidth": "400Gi"}'
    assert read_annotations({PARTITION_SPEC: text}).partition == PartitionSpec(True, 400 << 30)
    assert read_annotations({PARTITION_SPEC: "{}"}).partition == PartitionSpec()


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        (JOINT_ALLOCATE, "{", "not JSON: "),
        (JOINT_ALLOCATE, "[" * 16_000, "nested too deeply; leave out what is not needed"),
        (JOINT_ALLOCATE, "9" * 5000, "a number with too many digits; shorten it"),
        (JOINT_ALLOCATE, " " * 16_385, "longer than 16384 bytes; shorten it"),
        (JOINT_ALLOCATE, "ß" * 8_193, "longer than 16384 bytes; shorten it"),
        (JOINT_ALLOCATE, "[]", "the annotation: expected an object in braces, got []"),
        (
            JOINT_ALLOCATE,
            "{}",
            f"the annotation: deviceTypes is missing; give a list of {TYPES}, the primary type first",
        ),
        (JOINT_ALLOCATE, '{"deviceTypes": ["npu"]}', f"deviceTypes: expected one of {TYPES}, got 'npu'"),
        (JOINT_ALLOCATE, '{"deviceTypes": [""]}', f"deviceTypes: expected one of {TYPES}, got ''"),
        (
            JOINT_ALLOCATE,
            '{"deviceTypes": ["gpu"], "requiredScope": "SameNode"}',
            "requiredScope: expected SamePCIe, got 'SameNode'; leave it out for a preference",
        ),
        (ALLOCATE_HINT, '{"npu": {}}', "the annotation: unknown key 'npu'; did you mean gpu?"),
        (ALLOCATE_HINT, '{"rdma": {"vfselector": {}}}', "rdma: unknown key 'vfselector'; did you mean vfSelector?"),
        (
            ALLOCATE_HINT,
            '{"rdma": {"allocateStrategy": "All"}}',
            "rdma.allocateStrategy: expected one of ApplyForAll, RequestsAsCount, got 'All'",
        ),
        (PARTITION_SPEC, '{"ringBusBandwidth": "fast"}', "ringBusBandwidth: expected a quantity like 2Gi or 512M"),
    ],
)
def test_what_cannot_be_understood_names_the_annotation_and_the_field(key: str, text: str, problem: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotations({key: text})
    assert str(caught.value).startswith(f"{key}: {problem}")
