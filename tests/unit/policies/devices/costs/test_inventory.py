from policies.devices.costs import NO_DEVICES, CostLine, CostListing, Inventory, Missing, compile_costs, cpu_names
from sysfs.cpuset import CpuSet, NodeSet


def test_devices_are_listed_by_type_and_the_kernels_own_instances_are_none() -> None:
    lines = (CostLine(("a.com/gpu/gpu10", "a.com/gpu/gpu9"), 5, ("cpu/cpu0", "memory/node0", "pci/0000:3b:00.0")),)
    listing = CostListing(lines, ("a.com/fpga/f0",))
    inventory = Inventory(compile_costs(listing))
    assert inventory.devices == {"a.com/fpga": ("a.com/fpga/f0",), "a.com/gpu": ("a.com/gpu/gpu9", "a.com/gpu/gpu10")}


def test_devices_stand_in_the_order_of_types_and_names_whatever_their_lines_join() -> None:
    lines = (CostLine(("b/10", "b/1"), 5, ("cpu/cpu0",)), CostLine(("b/2", "b/0"), 6, ("cpu/cpu0",)))
    inventory = Inventory(compile_costs(CostListing(lines, ("a/0", "c/0"))))
    assert list(inventory.devices) == ["a", "b", "c"]
    assert inventory.devices["b"] == ("b/0", "b/1", "b/2", "b/10")


def test_without_cost_files_there_is_no_device() -> None:
    assert NO_DEVICES.devices == {}


def test_a_device_is_silent_beside_others_of_its_type_that_report_costs() -> None:
    lines = (
        CostLine(("a.com/gpu/gpu0",), 5, ("cpu/cpu0", "a.com/gpu/gpu1")),
        CostLine(("cpu/cpu0",), 1, ("cpu/cpu1",)),
    )
    listing = CostListing(lines, ("a.com/gpu/gpu2", "b.com/nic/nic0"))
    assert Inventory(compile_costs(listing)).silent == {"a.com/gpu": ("a.com/gpu/gpu1", "a.com/gpu/gpu2")}
    assert Inventory(compile_costs(listing), Missing.MIRROR).silent == {"a.com/gpu": ("a.com/gpu/gpu2",)}


def nearest(*lines: tuple[int, tuple[int, ...]]) -> str:
    """The nodes, of two with two CPUs each, where a device may be that says so of their CPUs."""
    listed = (CostLine(("a.com/x/0",), cost, cpu_names(cpus)) for cost, cpus in lines)
    inventory = Inventory(compile_costs(CostListing(tuple(listed), ("a.com/x/0",))))
    found = inventory.nearest_nodes(["a.com/x/0"], {0: CpuSet.parse("0-1"), 1: CpuSet.parse("2-3")})
    return str(found.get("a.com/x/0", NodeSet()))


def test_costs_state_a_place_where_each_cpu_of_a_node_costs_more_than_all_of_another() -> None:
    assert nearest((5, (0, 1)), (9, (2, 3))) == "0"
    assert nearest((5, (0,)), (7, (2,)), (8, (1,)), (9, (3,))) == ""
    assert nearest((5, (0, 1, 2, 3))) == ""


def test_costs_that_leave_out_a_cpu_state_no_place() -> None:
    assert nearest() == nearest((5, (0, 1))) == nearest((5, (0, 1)), (9, (2,))) == ""
    assert NO_DEVICES.nearest_nodes((), {}) == {}
