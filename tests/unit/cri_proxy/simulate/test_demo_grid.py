"""The picture of who owns which CPU."""

from cri_proxy.simulate.demo import MANY, OwnerLetters, grid
from cri_proxy.simulate.outcome import ContainerState
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe


def owning(cpus: str) -> ContainerState:
    return ContainerState("id", "running", CpuSet.parse(cpus), exclusive=CpuSet.parse(cpus))


def test_every_cpu_has_its_mark_beside_its_thread_sibling() -> None:
    machine = describe({"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "1Gi", "isolated": "14-15"})
    seen = {"web/c0": owning("4-5"), "bg/c0": ContainerState("id", "running", CpuSet.parse("6-7"))}
    assert grid(machine, CpuSet.parse("0"), seen, OwnerLetters().with_owners(seen)) == [
        "package 0   node 0  r· ··    node 1  AA ··",
        "package 1   node 2  ·· ··    node 3  ·· ii",
    ]


def test_a_letter_stays_with_its_container() -> None:
    owners = OwnerLetters().with_owners({"a": owning("1")}).with_owners({"b": owning("2"), "a": owning("1")})
    assert [owners.letter(name) for name in ("a", "b", "c")] == ["A", "B", ""]


def test_past_the_alphabet_all_look_alike() -> None:
    owners = OwnerLetters().with_owners({f"c{i:02}": owning(str(i)) for i in range(28)})
    assert (owners.letter("c25"), owners.letter("c26"), owners.letter("c27")) == ("Z", MANY, MANY)
