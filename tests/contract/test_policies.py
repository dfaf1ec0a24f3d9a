"""Rules for every registered policy: small tests over the registry, on one ordinary machine with devices."""

from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Placed, Previous, Rejected, Request
from policies.builder import build_policy
from policies.policy import Policy
from policies.registry import POLICIES, Registered
from sysfs.cpuset import CpuSet
from tests.contract.device_rules import DEVICES, MACHINE, OPTIONS, after, requests, some_grants
from tests.fakes.machines import small_machine

TINY = Registered("everywhere", "tests.contract.everywhere:Everywhere", reason_codes=("everywhere",))
CANDIDATES = {policy.name: policy for policy in (*POLICIES, TINY)}
pytestmark = pytest.mark.parametrize("name", CANDIDATES)


def built(name: str) -> Policy:
    return CANDIDATES[name].load()(MACHINE, OPTIONS, DEVICES)


def test_a_policy_says_its_name_and_its_machine(name: str) -> None:
    assert built(name).name == name
    assert built(name).machine is MACHINE


def test_a_decision_changes_nothing(name: str) -> None:
    policy = built(name)
    held = some_grants(policy, 1)
    pinnings, pools = policy.pinnings(held), policy.pools(held)
    for request in requests(2):
        policy.decide(held, request)
    assert (policy.pinnings(held), policy.pools(held)) == (pinnings, pools)


def test_the_same_question_has_the_same_answer(name: str) -> None:
    policy, other = built(name), built(name)
    held = some_grants(policy, 3)
    for request in requests(4):
        assert policy.decide(held, request) == other.decide(held, request)


@pytest.mark.parametrize("seed", range(5))
def test_a_placement_says_what_will_be_pinned(name: str, seed: int) -> None:
    policy = built(name)
    held = some_grants(policy, seed)
    for request in requests(seed + 100):
        decision = policy.decide(held, request)
        if isinstance(decision, Placed):
            now, then = policy.pinnings(held), dict(policy.pinnings(after(held, decision)))
            assert then.pop(request.container) == decision.pinning
            changed = [k for k, p in then.items() if now[k] != p]
            assert [u.container for u in decision.updates] == changed
            assert all(then[u.container] == u.pinning for u in decision.updates)
            assert set(now) - {request.container} == set(then)


@pytest.mark.parametrize("seed", range(5))
def test_a_release_says_what_will_be_pinned(name: str, seed: int) -> None:
    policy = built(name)
    held = some_grants(policy, seed)
    for grant in held.grants:
        now, then = policy.pinnings(held), policy.pinnings(held.without(grant.container))
        updates = policy.release(held, grant.container)
        assert {u.container: u.pinning for u in updates} == {k: p for k, p in then.items() if now[k] != p}


def test_releasing_a_stranger_changes_nothing(name: str) -> None:
    policy = built(name)
    assert policy.release(some_grants(policy, 5), ContainerKey("nobody", "c")) == ()


def test_nobody_is_pinned_to_nothing(name: str) -> None:
    policy = built(name)
    for seed in range(5):
        for pinning in policy.pinnings(some_grants(policy, seed)).values():
            assert pinning.cpus is None or pinning.cpus
            assert pinning.mems is None or pinning.mems


def test_owned_cpus_are_in_nobody_elses_set(name: str) -> None:
    policy = built(name)
    held = some_grants(policy, 6)
    for key, pinning in policy.pinnings(held).items():
        strangers = CpuSet.of(c for g in held.grants if g.container != key for c in g.owned)
        assert pinning.cpus is None or pinning.cpus.isdisjoint(strangers)


def test_its_own_grants_are_reinstated_verbatim(name: str) -> None:
    held = some_grants(built(name), 7)
    found = built(name).reinstate(held)
    assert found.allocations == held
    assert found.kept == tuple(g.container for g in held.grants)
    assert (found.replaced, found.unplaced) == ((), ())


def test_every_container_has_a_grant_after_reinstating_whatever_was_held(name: str) -> None:
    foreign = some_grants(build_policy("topology-aware", small_machine(cores=8), OPTIONS), 8)
    new = tuple(requests(9))
    found = built(name).reinstate(foreign, new)
    expected = {g.container for g in foreign.grants} | {r.container for r in new}
    assert {g.container for g in found.allocations.grants} == expected
    told = [*found.kept, *(k for k, _ in found.replaced), *(k for k, _ in found.unplaced)]
    assert sorted(told) == sorted(expected)


def test_withheld_cpus_are_not_given(name: str) -> None:
    policy = built(name)
    held = Allocations(withheld=CpuSet.parse("1-7"))
    for request in requests(10):
        held = after(held, policy.decide(held, request))
    assert all(g.owned.isdisjoint(held.withheld) for g in held.grants)


def test_of_a_grant_of_the_container_itself_only_the_memory_nodes_count(name: str) -> None:
    policy = built(name)
    held = some_grants(policy, 11)
    for grant in held.grants:
        again = policy.decide(held, grant.request)
        fresh = policy.decide(held.without(grant.container), grant.request)
        match again, fresh:
            case Placed(), Placed():
                cold = again.grant.is_cold
                kept = replace(again.grant, mems=fresh.grant.mems, is_cold=fresh.grant.is_cold, spill=fresh.grant.spill)
                assert kept == fresh.grant
                assert again.pinning.cpus == fresh.pinning.cpus
                assert cold or grant.mems <= again.grant.mems
            case _:
                assert again == fresh


def test_what_a_container_had_before_may_be_anything(name: str) -> None:
    policy = built(name)
    for request in requests(12):
        for previous in (
            Previous("", CpuSet()),
            Previous("no such pool", CpuSet.parse("900")),
            Previous("root", OPTIONS.reserved),
        ):
            decision = policy.decide(Allocations(), Request(request.container, request.pod, 1000, previous=previous))
            assert isinstance(decision, Placed)
            assert decision.grant.owned.isdisjoint(OPTIONS.reserved)


def test_pools_come_parents_first_and_the_root_has_none(name: str) -> None:
    seen = {""}
    for view in built(name).pools(Allocations()):
        assert view.parent in seen
        seen.add(view.name)
    assert built(name).pools(Allocations())[0].parent == ""


def test_preserved_containers_are_not_pinned(name: str) -> None:
    policy = built(name)
    held = some_grants(policy, 13)
    pinnings = policy.pinnings(held)
    assert all(pinnings[g.container].cpus is None for g in held.grants if g.kind is CpuKind.PRESERVE)


def test_reasons_are_sentences_with_registered_codes(name: str) -> None:
    policy = built(name)
    held = Allocations()
    for request in requests(14):
        decision = policy.decide(held, request)
        told = decision.reasons if isinstance(decision, Placed) else (decision.reason,)
        assert told
        assert all(r.code in CANDIDATES[name].reason_codes and len(r.text.split()) > 3 for r in told)
        held = after(held, decision)


def applied(held: Allocations, grants: tuple[Grant, ...]) -> Allocations:
    """These changed grants taken over: of containers that are there, each once, and of memory alone."""
    assert len({g.container for g in grants}) == len(grants)
    for grant in grants:
        old = held.get(grant.container)
        assert old is not None
        assert replace(grant, mems=old.mems, is_cold=old.is_cold, spill=old.spill) == old
        assert grant != old
    return held.with_grants(*grants)


@pytest.mark.parametrize("seed", range(5))
def test_narrowing_comes_to_an_end(name: str, seed: int) -> None:
    policy, held = built(name), some_grants(built(name), seed)
    for grant in held.grants[::2]:
        held = held.without(grant.container)
    for _ in range(2 * len(held.grants) + 1):
        held = applied(held, policy.narrowed(held))
    assert policy.narrowed(held) == ()
    assert policy.reinstate(held).allocations == held


@pytest.mark.parametrize("seed", range(5))
def test_narrowing_moves_nobody_to_other_cpus(name: str, seed: int) -> None:
    policy, held = built(name), some_grants(built(name), seed)
    was, now = policy.pinnings(held), policy.pinnings(applied(held, policy.narrowed(held)))
    assert {k: p.cpus for k, p in was.items()} == {k: p.cpus for k, p in now.items()}


@pytest.mark.parametrize("seed", range(5))
def test_better_places_come_to_an_end_and_own_no_cpu(name: str, seed: int) -> None:
    policy, held = built(name), some_grants(built(name), seed)
    for grant in held.grants[::2]:
        held = held.without(grant.container)
    owned = {g.container: g.owned for g in held.grants}
    for _ in range(3 * len(held.grants)):
        held = held.with_grants(*policy.better_places(held).grants)
        assert {g.container: g.owned for g in held.grants} == owned
        assert policy.reinstate(held).allocations == held
    assert policy.better_places(held).grants == ()


def test_a_cold_start_ends_once_and_brings_only_memory_nodes(name: str) -> None:
    policy, held = built(name), some_grants(built(name), 16)
    cold = [g for g in held.grants if g.is_cold]
    assert bool(cold) == (name == "topology-aware")
    for grant in cold:
        held = applied(held, policy.after_cold_start(held, grant.container))
        now = held.get(grant.container)
        assert now is not None
        assert not now.is_cold
        assert grant.mems <= now.mems
        assert policy.after_cold_start(held, grant.container) == ()


def test_a_stranger_has_no_cold_start_to_end(name: str) -> None:
    assert built(name).after_cold_start(some_grants(built(name), 16), ContainerKey("nobody", "c")) == ()


def test_who_is_not_cold_is_not_warmed(name: str) -> None:
    policy, held = built(name), some_grants(built(name), 17)
    assert [policy.after_cold_start(held, g.container) for g in held.grants if not g.is_cold] == [
        () for g in held.grants if not g.is_cold
    ]


def test_what_a_shortage_lets_in_owns_nothing_and_takes_nothing(name: str) -> None:
    """Whatever it is refused for: the answer is that refusal, another one, or a place that no other pays for."""
    policy = built(name)
    held, count = some_grants(policy, 5), 0
    for request in requests(6, 80):
        refused = policy.decide(held, request)
        if not isinstance(refused, Rejected):
            held = after(held, refused)
            continue
        decision = policy.overcommitted(held, request, refused)
        if isinstance(decision, Placed):
            count += 1
            assert (decision.grant.owned, decision.grant.shared_mcpu, decision.grant.is_overcommitted) == (
                CpuSet(),
                0,
                True,
            )
            assert all(grant.owned == before.owned for grant in decision.moved if (before := held.get(grant.container)))
            let_in = after(held, decision)
            assert policy.pinnings(let_in)[request.container] == decision.pinning
            assert policy.reinstate(let_in).kept == tuple(grant.container for grant in let_in.grants)
    assert bool(count) == (name == "topology-aware")
