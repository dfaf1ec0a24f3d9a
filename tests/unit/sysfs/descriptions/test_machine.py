import pytest

from sysfs.descriptions.machine import describe
from sysfs.errors import MachineSourceError
from sysfs.model import CoreKind, Machine

PLAIN = {"packages": 2, "dies": 1, "nodes": 2, "cores": 2, "threads": 2, "memory": "2Gi"}


def described(**keys: object) -> Machine:
    return describe({**PLAIN, **keys})


def l3(machine: Machine) -> list[str]:
    return [str(c.cpus) for c in machine.caches if c.level == 3]


def test_the_smallest_machine_is_one_cpu() -> None:
    machine = describe({})
    assert (len(machine.cpus), len(machine.nodes), machine.nodes[0].memory_bytes) == (1, 1, 4 << 30)


def test_linear_numbering_puts_the_threads_of_a_core_side_by_side() -> None:
    machine = described()
    assert [str(c.cpus) for c in machine.cores][:3] == ["0-1", "2-3", "4-5"]
    assert [str(n.cpus) for n in machine.nodes] == ["0-3", "4-7", "8-11", "12-15"]


def test_split_numbering_gives_all_first_threads_first() -> None:
    machine = described(numbering="split")
    assert [str(c.cpus) for c in machine.cores][:3] == ["0,8", "1,9", "2,10"]
    assert [str(n.cpus) for n in machine.nodes] == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]


def test_default_distances_grow_with_what_is_not_shared() -> None:
    row = [d for _, d in described(dies=2).nodes[0].distances]
    assert row == [10, 11, 12, 12, 21, 21, 21, 21]


def test_core_ids_restart_in_each_package() -> None:
    assert [c.core_id for c in described(nodes=1).cores] == [0, 1, 0, 1]


def test_memory_is_given_for_all_nodes_or_for_each() -> None:
    assert {n.memory_bytes for n in described(memory="512M").nodes} == {512_000_000}
    assert [n.memory_bytes for n in described(memory=["1Gi", 0, "2Gi", "1Ki"]).nodes] == [1 << 30, 0, 2 << 30, 1024]


def test_offline_cpus_are_nowhere_but_in_offline() -> None:
    machine = described(offline="1,4-7", isolated="4,8")
    assert (str(machine.offline), str(machine.isolated), str(machine.cores[0].cpus)) == ("1,4-7", "8", "0")
    assert str(machine.nodes[1].cpus) == ""


def test_l3_is_one_per_die_unless_told() -> None:
    assert l3(described()) == ["0-7", "8-15"]
    assert l3(described(l3=["0-1", "2-3", [4, 5]])) == ["0-1", "2-3", "4-5"]
    assert l3(described(l3=[])) == []


def test_efficiency_cores_are_named_by_their_cpus() -> None:
    machine = described(efficiency="8-15")
    assert {c.id for c in machine.cpus if c.kind is CoreKind.EFFICIENCY} == set(range(8, 16))


def test_given_distances_replace_the_default() -> None:
    assert describe({"packages": 2, "distances": [[10, 31], [31, 10]]}).nodes[0].distance_to(1) == 31


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"packges": 2}, "unknown key 'packges'; did you mean packages?"),
        ({"packages": 0}, "packages: expected a whole number from 1 to 8192, got '0'"),
        ({"cores": "2"}, "cores: expected a whole number from 1 to 8192, got '2'"),
        ({"packages": 8192, "cores": 2}, "is 65536 CPUs; the most is 8192"),
        ({"packages": 2048, "nodes": 1, "cores": 1}, "is 2048 nodes; the most is 1024"),
        ({"numbering": "random"}, "numbering: expected one of linear, split, got 'random'"),
        ({"memory": ["1Gi"]}, "a list of 4: one per node"),
        ({"memory": "lots"}, "memory: expected a quantity like 2Gi or 512M, got 'lots'"),
        ({"isolated": "99"}, "isolated: expected CPUs from 0 to 15, got 99"),
        ({"offline": "0-15"}, "leave at least one CPU online"),
        ({"distances": [[10]]}, "square matrix of 4"),
        ({"distances": [[10, 21]] * 4}, "square matrix of 4"),
        ({"distances": [[10, 11, 12, 9]] * 4}, "distances[0][3]: expected a whole number from 10 to 255, got '9'"),
        ({"distances": [[11] * 4] * 4}, "distance of a node to itself is 10"),
        ({"l3": ["0-3", "3-5"]}, "no CPU in common"),
        ({"l3": "0-3"}, "l3: expected a list, got '0-3'"),
    ],
)
def test_an_invalid_value_is_refused_with_key_value_and_remedy(keys: dict[str, object], message: str) -> None:
    with pytest.raises(MachineSourceError) as caught:
        described(**keys)
    assert message in str(caught.value)
