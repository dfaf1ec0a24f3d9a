from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.show.cpu_map import (
    LETTERS,
    MANY,
    NO_CACHE,
    CacheDomain,
    CpuMap,
    NodeCores,
    PackageCores,
    cpu_map,
    cpus_of,
    drawn,
    legend,
    lettered,
    owned_by_letter,
)

SMALL = {"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "1Gi"}


def cpus(*lists: str) -> tuple[CpuSet, ...]:
    return tuple(map(CpuSet.parse, lists))


def map_of(shape: dict[str, object], *, unavailable: str = "", reserved: str = "") -> CpuMap:
    machine = describe(shape)
    return cpu_map(machine, available=machine.online - CpuSet.parse(unavailable), reserved=CpuSet.parse(reserved))


def test_every_cpu_is_in_its_core_cache_node_and_package() -> None:
    shown = map_of({"nodes": 2, "cores": 4, "l3": ["0-1", "2-3", "4-7"]})
    first = NodeCores(0, (CacheDomain(0, cpus("0", "1")), CacheDomain(1, cpus("2", "3"))))
    assert shown.packages == (PackageCores(0, (first, NodeCores(1, (CacheDomain(2, cpus("4", "5", "6", "7")),)))),)


def test_cores_without_a_cache_of_that_level_are_in_one_domain() -> None:
    shown = map_of({"cores": 2, "l3": []})
    assert [domain.id for domain in shown.packages[0].nodes[0].l3] == [NO_CACHE]


def test_a_core_of_two_nodes_has_its_cpus_in_each() -> None:
    machine = describe(SMALL)
    shown = cpu_map(machine, available=machine.online, reserved=CpuSet())
    every = [core for package in shown.packages for node in package.nodes for d in node.l3 for core in d.cores]
    assert CpuSet.of_masks(core.mask for core in every) == machine.online


def test_every_cpu_has_its_mark_beside_its_thread_sibling() -> None:
    shown = map_of(SMALL | {"isolated": "14-15"}, reserved="0", unavailable="8-9")
    assert drawn(shown, {"A": CpuSet.parse("4-5")}, width=80) == [
        "package 0   node 0  r· ··    node 1  AA ··",
        "package 1   node 2  -- ··    node 3  ·· ii",
    ]
    assert legend(shown).endswith("· shared   r reserved   i isolated, free   - not available")


def test_offline_cpus_stand_apart() -> None:
    shown = map_of(SMALL | {"offline": "2-3"})
    assert drawn(shown, {}, width=80)[-1] == "offline     xx  CPUs 2-3"


def test_l3_domains_of_a_node_are_told_apart() -> None:
    shown = map_of({"cores": 4, "l3": ["0-1", "2-3"]})
    assert drawn(shown, {}, width=80) == ["package 0   node 0  · · | · ·"]


def test_what_is_wider_than_the_terminal_goes_on_below() -> None:
    shown = map_of({"nodes": 2, "cores": 8, "l3": ["0-3", "4-7", "8-15"]})
    assert drawn(shown, {"A": CpuSet.parse("5-6")}, width=32) == [
        "package 0   node 0  · · · · | ·",
        "                    A A ·",
        "            node 1  · · · · · ·",
        "                    · ·",
    ]
    assert drawn(shown, {}, width=44) == [
        "package 0   node 0  · · · · | · · · ·",
        "            node 1  · · · · · · · ·",
    ]


def test_a_letter_stays_with_its_container_and_is_free_once_that_is_gone() -> None:
    first = lettered(["a", "b"], {})
    assert first == {"a": "A", "b": "B"}
    assert lettered(["c", "b"], first) == {"c": "A", "b": "B"}


def test_past_the_letters_all_look_alike() -> None:
    letters = lettered([f"c{i:02}" for i in range(len(LETTERS) + 2)], {})
    assert sorted(letters.values()).count(MANY) == 2
    assert owned_by_letter([("a", CpuSet.parse("1")), ("b", CpuSet.parse("2"))], {"a": MANY, "b": MANY}) == {
        MANY: CpuSet.parse("1-2")
    }


def test_a_map_has_all_cpus_offline_ones_too() -> None:
    machine = describe({"cores": 4, "offline": "3"})
    assert str(cpus_of(cpu_map(machine, available=machine.online, reserved=CpuSet()))) == "0-3"
