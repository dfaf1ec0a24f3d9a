from policies.base import CpuKind, Grant
from policies.topology_aware.supply.load import CROWDED_MCPU, IDLE_MCPU, Load, load_of
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BEST_EFFORT, four_nodes, request, supply_of, tree_of

TREE = tree_of(four_nodes())  # four nodes of four CPUs in two packages
NODES = tuple(f"NUMA node #{n}" for n in range(4))


def shared(name: str, pool: str, mcpu: int) -> Grant:
    return Grant(request(name, mcpu, BEST_EFFORT), pool, CpuKind.SHARED, shared_mcpu=mcpu)


def owned(name: str, pool: str, cpus: str) -> Grant:
    return Grant(request(name), pool, CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(cpus))


def loads(*grants: Grant, mcpu: int = 0) -> tuple[Load, dict[str, int]]:
    load = load_of(supply_of(TREE, *grants))
    return load, {pool.name: load.after(pool.index, mcpu) for pool in TREE.pools}


def test_load_is_requested_cpu_time_for_each_shared_cpu() -> None:
    _, load = loads(shared("a/c", NODES[0], 1000), owned("b/c", NODES[1], "4-6"), shared("c/c", NODES[1], 500))
    assert [load[n] for n in NODES] == [250, 500, 0, 0]
    assert load["socket #0"] == 300  # 1500 for five CPUs


def test_a_wider_pool_loads_all_below_it_evenly() -> None:
    _, load = loads(shared("a/c", "root", 1600), shared("b/c", "socket #1", 800))
    assert [load[n] for n in NODES] == [100, 100, 200, 200]
    assert load["root"] == 150


def test_containers_without_a_request_weigh_little_but_something() -> None:
    _, load = loads(*(shared(f"{n}/c", NODES[0], 0) for n in range(10)), shared("one/c", NODES[1], 1000))
    assert load[NODES[0]] == load[NODES[1]] == 10 * IDLE_MCPU // 4


def test_sharers_of_an_empty_set_count_where_they_run() -> None:
    _, load = loads(shared("a/c", NODES[0], 0), owned("b/c", NODES[0], "0-3"), mcpu=100)
    assert (load["socket #0"], load[NODES[1]]) == (50, 50)
    assert load[NODES[0]] > 1000 * load["socket #0"]


def test_an_owner_adds_load_by_what_it_takes() -> None:
    load, _ = loads(shared("a/c", NODES[0], 1000))
    node = TREE.named(NODES[0]).index
    assert [load.after(node, 0, owned) for owned in (0, 2, 3)] == [250, 500, 1000]
    assert load.after(TREE.named(NODES[1]).index, 0, 4) == 0


def test_a_pool_is_crowded_from_a_fifth_of_a_cpu_above_the_average_on() -> None:
    load, _ = loads(shared("a/c", NODES[0], 1000), shared("b/c", NODES[2], 2000))
    average = 3000 / 16
    crowding = {n: load.crowding(TREE.named(n).index) for n in ("root", *NODES)}
    assert crowding == {"root": 0, NODES[0]: 0, NODES[1]: 0, NODES[2]: 2, NODES[3]: 0}
    assert 100 < 500 - average - CROWDED_MCPU <= 200


def test_idle_is_what_nobody_asks_for_of_the_cpus_wider_pools_included() -> None:
    load, _ = loads(shared("a/c", NODES[0], 1000), shared("b/c", "root", 1600), owned("c/c", NODES[1], "4"))
    idle = {name: load.idle(TREE.named(name).index) for name in ("root", "socket #0", *NODES)}
    wide = 1600 / 15  # for each of the shared CPUs of the machine
    assert idle["root"] == 15_000 - 2600
    assert idle["socket #0"] == round(7000 - 1000 - 7 * wide)
    assert [idle[name] for name in NODES[:3]] == [round(x) for x in (3000 - 4 * wide, 3000 - 3 * wide, 4000 - 4 * wide)]


def test_no_set_is_less_than_busy() -> None:
    assert Load((1, 1), (2000, 999), (0.0, 0.0)).idle(0) == 0
    assert Load((1, 1), (2000, 999), (0.0, 0.0)).idle(1) == 1
