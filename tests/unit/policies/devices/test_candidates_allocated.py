"""Devices that Koordinator's scheduler has chosen for a pod are those that its containers get."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from policies.device_grants import DeviceGrant
from policies.devices import (
    ALLOCATE_HINT,
    DEVICE_ALLOCATED,
    AnnotationError,
    CannotAllocate,
    DeviceAllocator,
    DeviceInventory,
    DeviceQuestion,
    InventoryDevice,
    PciePath,
    VfGroup,
    identities_of,
    read_annotations,
)
from tests.unit.policies.devices.build import GPUS, NICS, gpu, inventory, nic

NODE = DeviceInventory(
    (
        *(gpu(minor, minor // 4, f"s{minor // 2}") for minor in range(7)),
        InventoryDevice("gpu", 7, 1, "s3", PciePath(bus="0000:7a:00.0"), uuid="GPU-7"),
        *(nic(minor, minor // 2, f"s{minor}", vfs=2) for minor in range(4)),
    )
)
VFS = {"scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}'}


def given(
    requests: Mapping[str, int],
    chosen: object,
    held: Sequence[DeviceGrant] = (),
    node: DeviceInventory = NODE,
    more: Mapping[str, str] = MappingProxyType({}),
) -> list[str] | str:
    asked = DeviceQuestion(requests, read_annotations({DEVICE_ALLOCATED: json.dumps(chosen), **more}))
    answer = DeviceAllocator(node).allocate(asked, held)
    return answer.problem if isinstance(answer, CannotAllocate) else [str(grant) for grant in answer.grants]


def test_a_container_gets_those_that_were_chosen() -> None:
    chosen = {"gpu": [{"minor": 2, "resources": {"koordinator.sh/gpu-core": "100"}}, {"minor": 5}]}
    assert given({GPUS: 2}, chosen) == ["gpu 2", "gpu 5"]
    assert given({GPUS: 1}, chosen) == ["gpu 2"]
    assert given({GPUS: 1}, chosen, [DeviceGrant("gpu", 2, 100)]) == ["gpu 5"]  # another container of the pod has it
    assert given({"koordinator.sh/gpu": 50}, chosen) == ["gpu 2"]


def test_more_than_was_chosen_or_what_others_have_is_refused_by_name() -> None:
    text = given({GPUS: 2}, {"gpu": [{"minor": 2}, {"minor": 5}]}, [DeviceGrant("gpu", 5, 100)])
    assert text == (
        "gpu: 2 asked for, 1 can be given (gpu 0-1,3-4,6-7: not one of those of "
        "scheduling.koordinator.sh/device-allocated; 5: in use)"
    )
    assert str(given({GPUS: 1}, {"gpu": [{"minor": 40}]})).startswith("gpu: 1 asked for, none can be given")


def test_types_of_which_none_were_chosen_are_chosen_here() -> None:
    assert given({GPUS: 1, NICS: 1}, {"gpu": [{"minor": 6}]}) == ["gpu 6", "rdma 0"]
    assert given({GPUS: 1}, {"rdma": [{"minor": 3}]}) == ["gpu 0"]


@pytest.mark.parametrize("name", ["GPU-7", "00000000:7A:00.0"])
def test_an_identifier_goes_before_a_number(name: str) -> None:
    """Koordinator counts as /dev/nvidiaN, the inventory as it likes."""
    assert given({GPUS: 1}, {"gpu": [{"minor": 0, "id": name}]}) == ["gpu 7"]
    assert given({GPUS: 1}, {"gpu": [{"minor": 0, "id": "GPU-unknown"}]}) == ["gpu 0"]


@pytest.mark.parametrize("name", ["GPU-9", "00000000:9A:00.0"])
def test_a_number_does_not_stand_for_a_device_with_another_identifier(name: str) -> None:
    assert "none can be given" in str(given({GPUS: 1}, {"gpu": [{"minor": 7, "id": name}]}))
    assert given({GPUS: 1}, {"gpu": [{"minor": 7, "id": "a name"}]}) == ["gpu 7"]  # of no form that is known


def test_a_virtual_function_that_was_chosen_is_the_one_that_is_given() -> None:
    chosen = {"rdma": [{"minor": 1, "extension": {"vfs": [{"minor": 1, "busID": "0000:01:00.2"}]}}]}
    assert given({NICS: 1}, chosen, more=VFS) == ["rdma 1 VF 0000:01:00.2"]
    gone = {"rdma": [{"minor": 1, "extension": {"vfs": [{"busID": "0000:09:00.7"}]}}]}
    assert str(given({NICS: 1}, gone, more=VFS)).startswith("rdma: 1 with 1 unit each asked for, none can be given")


def test_a_nic_whose_chosen_virtual_function_cannot_be_given_gives_none() -> None:
    chosen = {"rdma": [{"minor": 1, "extension": {"vfs": [{"busID": "0000:01:00.2"}]}}]}
    in_use = given({NICS: 1}, chosen, [DeviceGrant("rdma", 1, 1, "0000:01:00.2")], more=VFS)
    assert "; 1: VF 0000:01:00.2 is in use)" in str(in_use)
    groups = tuple(VfGroup((vf,), {"bus": vf.bus}) for group in NODE.of("rdma")[1].vf_groups for vf in group.vfs)
    node = DeviceInventory((replace(NODE.of("rdma")[1], vf_groups=groups),))
    other = {ALLOCATE_HINT: '{"rdma": {"vfSelector": {"matchLabels": {"bus": "0000:01:00.1"}}}}'}
    mismatched = given({NICS: 1}, chosen, node=node, more=other)
    assert str(mismatched).endswith("(rdma 1: VF 0000:01:00.2 does not match the vfSelector)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "expected"),
        ('{"npu": [{"minor": 0}]}', "npu"),
        ('{"gpu": [1]}', "gpu: expected an object with the minor of a device, got"),
        ('{"gpu": [{"minor": -1}]}', "expected an object with the minor of a device"),
        ('{"gpu": [{"minor": true}]}', "expected an object with the minor of a device"),
        ('{"gpu": [' + ",".join(['{"minor": 0}'] * 257) + "]}", "gpu: 257 devices; expected at most 256"),
        (f'{{"gpu": [{{"minor": 0, "id": "{"x" * 16_384}"}}]}}', "longer than 16384 bytes"),
        ('{"gpu": [{"minor": 0, "id": 7}]}', "gpu 0: expected texts as id and busID"),
        ('{"rdma": [{"minor": 0, "extension": {"vfs": 1}}]}', "rdma 0: expected texts as id and busID"),
        ('{"rdma": [{"minor": 0, "extension": 1}]}', "rdma 0: expected texts"),
    ],
)
def test_what_is_not_understood_is_named(text: str, problem: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotations({DEVICE_ALLOCATED: text})
    assert problem in str(caught.value)


def test_without_devices_of_an_inventory_there_is_nothing_to_take() -> None:
    assert given({GPUS: 1}, {"gpu": [{"minor": 0}]}, node=inventory()) == "gpu: 1 asked for, and the inventory has none"


def test_each_device_is_named_once_however_many_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod's author can write hundreds, and every attempt looks them up."""
    asked: list[InventoryDevice] = []

    def counted(device: InventoryDevice) -> tuple[str, ...]:
        asked.append(device)
        return identities_of(device)

    monkeypatch.setattr("policies.devices.candidates.identities_of", counted)
    assert given({GPUS: 1, NICS: 1}, {"gpu": [{"minor": 0, "id": "GPU-7"}] * 256})[0] == "gpu 7"
    assert len(asked) == len(NODE.devices)
