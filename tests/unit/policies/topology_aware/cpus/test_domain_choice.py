from policies.topology_aware.cpus.domain_choice import Choice, Unbeaten
from policies.topology_aware.cpus.spread import Spread
from policies.topology_aware.cpus.tallies import Tallies, tallies_of
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import tree_of

MACHINE = describe({"packages": 2, "nodes": 4, "cores": 4})
TREE = tree_of(MACHINE)
TOP = TREE.domains.root


def tallied(free: str) -> Tallies:
    return tallies_of(TREE, TOP, TREE.root, CpuSet.parse(free).mask, [len(MACHINE.online)] * len(TREE.pools))


def choices(free: str, count: int, bound: tuple[int, int, int]) -> list[Choice]:
    tallies = tallied(free)
    return Unbeaten(Spread(MACHINE, tallies, TOP, 0).leaves, tallies, count, bound, frozenset()).of(TOP)[1:]


def test_of_choices_that_add_as_many_domains_the_one_stays_that_gives_most() -> None:
    found = choices("0-3,4-6,8-9", 7, (1, 3, 3))
    assert {choice[:3]: (choice.total, choice.leaves) for choice in found} == {
        (1, 1, 1): (4, 0b001),
        (1, 2, 2): (7, 0b011),
        (1, 3, 3): (7, 0b011 | 0b100),
    }


def test_choices_that_add_more_domains_than_one_that_gives_enough_are_left_out() -> None:
    assert {choice[:3] for choice in choices("0-7,16-23", 8, (1, 2, 2))} == {(1, 1, 1), (1, 2, 2)}
