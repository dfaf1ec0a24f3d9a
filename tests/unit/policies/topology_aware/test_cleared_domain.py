import pytest

from policies.base import Allocations, CpuKind, Grant, Placed, QosClass, Request
from policies.preferences import Threads
from policies.topology_aware import cleared_domain
from sysfs.cpuset import NodeSet
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, fill, four_nodes, placed, request, topology_aware

POLICY = topology_aware(four_nodes())  # nodes 0-3, 4-7, 8-11, 12-15
BIG = request("big/c", 4000)


def small(mcpu: int, qos: QosClass = BURSTABLE, *, each: int = 1) -> list[Request]:
    """So many containers for every node."""
    limit = {} if qos is BEST_EFFORT else {"cpu_limit_mcpu": 2 * mcpu}  # else it would be in a package
    return [request(f"s{n}/c", mcpu, qos, **limit) for n in range(4 * each)]


def share(name: str, node: int, mcpu: int, qos: QosClass = BURSTABLE) -> Grant:
    mems = NodeSet.of([node])
    return Grant(request(f"{name}/c", mcpu, qos), f"NUMA node #{node}", CpuKind.SHARED, shared_mcpu=mcpu, mems=mems)


def beside(*others: Request) -> tuple[Allocations, Placed]:
    held = fill(POLICY, *others)
    return held, placed(POLICY.decide(held, BIG))


def nodes_of(decision: Placed) -> set[int]:
    return {cpu // 4 for cpu in decision.grant.exclusive}


def codes(decision: Placed) -> list[str]:
    return [reason.code for reason in decision.reasons]


@pytest.mark.parametrize(("mcpu", "qos"), [(100, BURSTABLE), (900, BURSTABLE), (0, BEST_EFFORT)])
def test_small_sharers_leave_the_node_that_a_container_of_its_size_gets(mcpu: int, qos: QosClass) -> None:
    held = Allocations(tuple(share(f"s{node}", node, mcpu, qos) for node in range(4)))
    decision = placed(POLICY.decide(held, BIG))
    assert len(nodes_of(decision)) == 1
    assert decision.grant.pool.startswith("NUMA node")
    assert "kept-together" in codes(decision)


def test_three_containers_of_the_size_of_a_node_get_one_each() -> None:
    held = fill(POLICY, *small(100, each=2), *(request(f"b{n}/c", 4000) for n in range(3)))
    whole = [grant.exclusive.mask for grant in held.grants if grant.owned]
    assert sorted(whole) == sorted({0xF << 4 * n for n in range(4)} & set(whole))
    assert len(whole) == 3


def test_no_more_containers_are_updated_than_if_the_cpus_were_of_two_nodes() -> None:
    held, decision = beside(*small(100, each=2))
    moved = {grant.container for grant in decision.moved}
    assert len(moved) == 2
    assert {update.container for update in decision.updates} == moved
    assert all(held.get(key) is not None for key in moved)


def test_the_reason_says_what_was_spared_and_how_many_containers_change() -> None:
    _, decision = beside(*small(100, each=2))
    text = next(reason.text for reason in decision.reasons if reason.code == "kept-together")
    assert text == (
        f"its CPUs are together in {decision.grant.pool}, which small sharers leave, instead of on 2 NUMA nodes: "
        "2 other containers changed, otherwise 4"
    )


def test_shares_of_a_cpu_and_more_stay_where_they_are() -> None:
    _, decision = beside(*small(1000))
    assert decision.moved == ()
    assert len(nodes_of(decision)) == 2


def test_no_memory_is_planned_for_sharers_that_stay_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large request beside hundreds of sharers would let most of them leave: that is refused by their sum."""
    held = Allocations(tuple(share(f"s{node}", node, 1000) for node in range(4)))
    monkeypatch.delattr(cleared_domain, "in_pools")
    assert "kept-together" not in codes(placed(POLICY.decide(held, BIG)))


def test_a_container_that_fits_beside_the_sharers_displaces_none() -> None:
    held = fill(POLICY, *small(100))
    decision = placed(POLICY.decide(held, request("three/c", 3000)))
    assert decision.moved == ()
    assert "kept-together" not in codes(decision)


def test_a_container_that_grows_moves_no_others() -> None:
    held = fill(POLICY, *small(100), request("big/c", 3000))
    own = next(grant for grant in held.grants if grant.owned)
    decision = placed(POLICY.decide(held, request("big/c", 4000, previous=own.as_previous)))
    assert decision.moved == ()


def test_nothing_moves_where_that_would_update_more_containers() -> None:
    """Twelve would leave node 0, two sharers of nodes 2 and 3 get fewer CPUs."""
    crowd = [share(f"s{n}", 0, 50) for n in range(12)]
    held = Allocations((*crowd, share("t", 1, 3500), share("u", 2, 1500), share("v", 3, 1500)))
    policy = topology_aware(four_nodes(), moves_per_check=0)
    decision = placed(policy.decide(held, request("big/c", 4000)))
    assert (decision.moved, nodes_of(decision), len(decision.updates)) == ((), {2, 3}, 2)


def test_others_move_for_whole_cores_that_are_asked_for_strictly() -> None:
    held = Allocations(tuple(share(f"s{n}", n, 500) for n in range(4)))
    strict = request("big/c", 14000, threads=Threads.OWN_CORE, strict_threads=True)
    decision = placed(POLICY.decide(held, strict))
    owned = decision.grant.exclusive
    assert len(owned) == 14
    assert all((cpu ^ 1) in owned for cpu in owned)


def test_where_others_have_to_move_the_cpus_are_on_the_fewest_nodes() -> None:
    """The fewest moves would leave a CPU in each of four nodes to others, and take twelve of three and four."""
    held = Allocations(tuple(share(f"s{n}{i}", n, 700) for n in range(4) for i in range(2)))
    decision = placed(POLICY.decide(held, request("big/c", 9000)))
    assert len(nodes_of(decision)) == 3
