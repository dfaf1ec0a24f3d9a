from hypothesis import given, settings

from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from sysfs.show.outline import Branch, branches, irregularities, outline, shown_bytes
from tests.fakes.machines import machines, merge_nodes, small_machine


def test_the_tree_names_what_is_one_thing_in_one_line() -> None:
    text = outline(small_machine(isolated="3", memory_nodes=[{"memory": "16Gi", "near": {0: 17}, "movable": True}]))
    assert text.splitlines()[:9] == [
        "2 packages, 3 NUMA nodes, 4 cores, 8 CPUs, 20 GiB of memory",
        "online 0-7, offline none, isolated 3 (in brackets below)",
        "",
        "package 0 = NUMA node 0 = L3 #0  CPUs 0-3  2 GiB DRAM",
        "├─ 2 cores: 0,1 2,[3]",
        "└─ NUMA node 2  16 GiB PMEM, movable  17 from node 0",
        "package 1 = NUMA node 1 = L3 #1  CPUs 4-7  2 GiB DRAM",
        "└─ 2 cores: 4,5 6,7",
        "",
    ]


def test_huge_pages_stand_beside_the_memory_of_their_node() -> None:
    text = outline(small_machine(hugepages={"2Mi": [512, 0], "1Gi": 1}))
    assert "CPUs 0-3  2 GiB DRAM, 2Mi huge pages: 512, 1Gi huge pages: 1\n" in text
    assert "CPUs 4-7  2 GiB DRAM, 1Gi huge pages: 1\n" in text


def test_distances_stand_in_a_table() -> None:
    assert "distance   0   1\n       0  10  21\n       1  21  10\n" in outline(small_machine())


def test_devices_other_than_bridges_are_listed_with_their_way() -> None:
    pci = [{"address": "10:01.0", "class": 0x060400, "node": 1}, {"address": "11:00.0", "parent": "10:01.0"}]
    text = outline(small_machine(pci=pci))
    assert "PCI devices (1 bridge not shown)" in text
    assert "  0000:11:00.0  device (000000)  node 1  pci0000:10 > 0000:10:01.0\n" in text


def test_a_node_that_lies_across_dies_is_told() -> None:
    machine = merge_nodes(small_machine(packages=1, dies=2, l3=[]), 0, 1)
    assert irregularities(machine) == ("NUMA node 0 spans dies 0-1 of package 0",)
    assert "NUMA node 0 spans dies" in outline(machine)


def test_what_crosses_a_border_is_told_and_is_no_level() -> None:
    machine = small_machine(l3=["0-1,4-5", "2-3,6-7"])
    assert irregularities(machine)[0] == "L3 #0 crosses the border of NUMA node 0: it is no level of the tree"
    assert [branch.names for branch in branches(machine)] == [
        ("package 0", "NUMA node 0"),
        ("package 1", "NUMA node 1"),
    ]


def test_efficiency_cores_are_marked() -> None:
    assert "cores: 0,1 e2,3" in outline(small_machine(efficiency="2-3"))


def held(branch: Branch) -> list[int]:
    return [cpu for core in branch.cores for cpu in core.cpus] + [c for child in branch.children for c in held(child)]


@settings(max_examples=30, deadline=None)
@given(machines())
def test_every_cpu_and_every_node_stands_in_the_tree_once(machine: Machine) -> None:
    assert sorted(cpu for branch in branches(machine) for cpu in held(branch)) == list(machine.online)
    lines = outline(machine).partition("\ndistance")[0]
    assert all(lines.count(f"NUMA node {n.id} ") == 1 for n in machine.nodes)


def test_sizes_have_about_three_digits() -> None:
    assert [shown_bytes(n) for n in (0, 1023, 1536, 470 << 20, 5 << 50)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "470 MiB",
        "5 PiB",
    ]


def test_lines_are_as_wide_as_asked_and_break_between_words() -> None:
    machine = describe({"packages": 2, "cores": 24, "threads": 2, "numbering": "split", "isolated": "3,5,7,9,11,13,15"})
    narrow, wide = (outline(machine, width).partition("\ndistance")[0] for width in (60, 10_000))
    assert max(map(len, narrow.splitlines())) <= 60
    words = [line.replace("│", "").replace("├─", "").replace("└─", "").split() for line in (narrow, wide)]
    assert words[0] == words[1]
    assert len(wide.splitlines()) == 7


def test_a_long_list_of_cpus_is_cut_where_there_is_no_room_for_it() -> None:
    machine = describe(
        {"packages": 2, "cores": 64, "numbering": "split", "offline": "1,5,9,13,17,21,25,29,33,37,41,45,49"}
    )
    assert ",... (51 CPUs)" in outline(machine, 60)
    assert "..." not in outline(machine, 10_000)
