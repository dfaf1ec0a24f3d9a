from fractions import Fraction

from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices import DeviceUse, Usage, pcie_groups, taken, usage_of
from tests.unit.policies.devices.build import GIB, GPUS, gpu, inventory, nic

NODE = inventory(gpu(0, 0, "p0"), gpu(1, 1, "p1"), nic(0, 0, "p0", vfs=2))


def use(*held: DeviceGrant) -> Usage:
    return usage_of(held, NODE, pcie_groups(NODE.devices))


def test_entries_of_one_device_add_up_to_all_of_it_at_most() -> None:
    found = use(DeviceGrant("gpu", 0, 60), DeviceGrant("gpu", 0, 70), DeviceGrant("rdma", 0, 1, "0000:00:00.1"))
    assert found.of(NODE.devices[0]) == DeviceUse(100, Fraction(100))
    assert found.of(NODE.devices[2]) == DeviceUse(1, vfs=frozenset({"0000:00:00.1"}))
    assert found.of(NODE.devices[1]).is_idle
    assert found.used == {(0, "gpu"), (0, "rdma")}


def test_a_device_of_which_only_a_virtual_function_is_taken_is_not_idle() -> None:
    assert DeviceUse().is_idle
    assert not DeviceUse(vfs=frozenset({"0000:00:00.1"})).is_idle


def test_resources_say_what_of_a_gpu_is_taken() -> None:
    memory = (("koordinator.sh/gpu-memory", 20 * GIB),)
    core = (("koordinator.sh/gpu-core", 30), ("koordinator.sh/gpu-memory-ratio", 40))
    whole, half = ((GPUS, 1),), (("koordinator.sh/gpu", 50),)
    assert taken(DeviceGrant("gpu", 0, 25, resources=memory), NODE.devices[0]) == (0, Fraction(25))
    assert taken(DeviceGrant("gpu", 0, 25, resources=memory), gpu(0, memory=0)) == (0, Fraction(25))
    assert taken(DeviceGrant("gpu", 0, 30, resources=core), NODE.devices[0]) == (30, Fraction(40))
    assert taken(DeviceGrant("gpu", 0, 100, resources=whole), NODE.devices[0]) == (100, Fraction(100))
    assert taken(DeviceGrant("gpu", 0, 50, resources=half), NODE.devices[0]) == (50, Fraction(50))


def test_a_device_that_is_held_exclusively_is_in_use_as_a_whole() -> None:
    grant = DeviceGrant("rdma", 0, 1, exclusive=ExclusivePolicy.DEVICE_LEVEL)
    assert use(grant).of(NODE.devices[2]).units == 100


def test_a_pcie_is_held_exclusively_for_one_type() -> None:
    found = use(DeviceGrant("rdma", 0, 0, exclusive=ExclusivePolicy.PCIE_LEVEL))
    assert found.exclusive == {(0, "rdma")}
    assert found.used == {(0, "rdma")}


def test_a_device_that_has_left_the_inventory_is_in_no_ones_way() -> None:
    assert use(DeviceGrant("gpu", 9, 100)) == Usage({}, frozenset(), frozenset(), frozenset())


def test_what_the_pod_has_itself_takes_and_is_no_use_of_others() -> None:
    own = [DeviceGrant("gpu", 0, 60, exclusive=ExclusivePolicy.PCIE_LEVEL), DeviceGrant("gpu", 9, 60)]
    found = usage_of((), NODE, pcie_groups(NODE.devices), own)
    assert found.of(NODE.devices[0]).units == 60
    assert found.used == {(0, "gpu")}
    assert (found.by_others, found.exclusive) == (frozenset(), frozenset())
