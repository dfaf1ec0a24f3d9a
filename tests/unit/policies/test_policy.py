from policies.base import Allocations, ContainerKey, Pinning, Pinnings, PoolView, Reason, Rejected, Update
from policies.devices import DeviceInventory, InventoryDevice
from policies.devices.costs import NO_DEVICES, CostListing, Inventory, compile_costs
from policies.options import PolicyOptions
from sysfs.cpuset import CpuSet
from tests.contract.everywhere import Everywhere
from tests.fakes.machines import small_machine
from tests.unit.policies.build import request

MACHINE = small_machine()
OPTIONS = PolicyOptions(MACHINE.online)
A, B = request("a/c"), request("b/c")


class Crowding(Everywhere):
    """Pins containers to CPU 0 while there are several."""

    def pinnings(self, held: Allocations) -> Pinnings:
        several = {grant.container: Pinning(CpuSet.parse("0"), None) for grant in held.grants}
        return several if len(several) > 1 else super().pinnings(held)


def test_a_release_follows_from_the_pinnings_before_and_after() -> None:
    policy = Crowding(MACHINE, OPTIONS)
    held = Allocations().with_grants(policy.decide(Allocations(), A).grant, policy.decide(Allocations(), B).grant)
    assert policy.release(held, A.container) == (Update(B.container, policy.fallback(held)),)
    assert policy.release(held, ContainerKey("gone", "c")) == ()


def test_what_a_policy_says_nothing_about_is_empty() -> None:
    policy = Everywhere(MACHINE, OPTIONS)
    assert (policy.notes, policy.defaults(A), policy.affinity_reasons(Allocations(), A)) == ((), (), ())
    assert (policy.narrowed(Allocations()), policy.after_cold_start(Allocations(), A.container)) == ((), ())


def test_what_is_refused_stays_refused_by_a_policy_that_overcommits_nothing() -> None:
    refused = Rejected(Reason("cpu-full", "the machine is full"))
    assert Everywhere(MACHINE, OPTIONS).overcommitted(Allocations(), A, refused) is refused


def test_the_only_pool_is_the_machine() -> None:
    (root,) = Everywhere(MACHINE, PolicyOptions(CpuSet.parse("0-1,900"))).pools(Allocations())
    two, none = CpuSet.parse("0-1"), CpuSet()
    assert root == PoolView("root", "", 0, "root", two, two, none, none, MACHINE.memory_nodes, 2000, 0)


def test_with_other_devices_a_policy_is_otherwise_the_same() -> None:
    devices = Inventory(compile_costs(CostListing((), ("a.com/x/x0",))))
    policy = Crowding(MACHINE, OPTIONS)
    other = policy.with_devices(DeviceInventory((), costs=devices))
    assert (type(other), other.machine, other.available) == (Crowding, MACHINE, policy.available)
    assert (policy.devices.costs, other.devices.costs) == (NO_DEVICES, devices)
    assert other.with_devices(other.devices) is other


def test_devices_that_stand_on_other_lines_now_are_named_by_these() -> None:
    first, moved = (DeviceInventory((InventoryDevice("gpu", 0).stated_by(f"a.yaml line {n}"),)) for n in (1, 2))
    policy = Everywhere(MACHINE, OPTIONS, first)
    assert first == moved
    assert policy.with_devices(moved).devices.statements == moved.statements
