from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.node.ledger.deadlock import break_deadlocks
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.state.rows import Row
from policies.base import Allocations, CpuKind, Placed, QosClass
from policies.builder import build_policy
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.grants import ledger_with, request, row, small_policy
from tests.fakes.machines import machines
from tests.fakes.rows import confirmed_cpus


def changed(ledger: Ledger, *rows: Row) -> Ledger:
    """The same containers with other grants, where they are still confirmed on their old CPUs."""
    ledger.put(*rows)
    return ledger


def on(ledger: Ledger) -> dict[str, str]:
    return {r.key.name: str(r.acknowledged.cpus) for r in ledger.active() if r.acknowledged is not None}


def update_one(ledger: Ledger, random: Random) -> bool:
    """Let one update go well, whichever; False when none may go out."""
    waiting = ledger.unsettled()
    if not waiting:
        return False
    key = random.choice(waiting).key
    target = ledger.sendable(key)
    assert target is not None
    ledger.confirm(key, target)
    return True


def bring_all(ledger: Ledger, random: Random) -> None:
    """Updates, one after the other, until none is left; the promise is checked after each."""
    for _ in range(10 * len(list(ledger.active())) + 10):
        check(ledger)
        if not break_deadlocks(ledger) and not update_one(ledger, random):
            return
    raise AssertionError(f"it goes on for ever: {on(ledger)}")


def check(ledger: Ledger) -> None:
    """No CPU that somebody has alone, as far as the runtime has confirmed, is in anybody else's set."""
    rows = [r for r in ledger.active() if r.acknowledged is not None and r.acknowledged.cpus is not None]
    for one in rows:
        alone = confirmed_cpus(ledger, one.key)
        for other in rows:
            known = other.acknowledged.cpus if other.acknowledged is not None else None
            assert known, f"{other.key} has no CPU"
            assert other.key == one.key or known.isdisjoint(alone), f"{other.key} ({known}) is on {alone} of {one.key}"


def test_the_first_of_two_that_change_places_steps_aside() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", owned="2", acknowledged="2"))
    changed(ledger, row("a", owned="2", acknowledged="1"), row("b", owned="1", acknowledged="2"))
    assert [key.name for key in break_deadlocks(ledger)] == ["a"]
    target = ledger.sendable(row("a").key)
    assert target is not None
    assert str(target.cpus) == "3-7"
    bring_all(ledger, Random(1))
    assert on(ledger) == {"a": "2", "b": "1"}


def test_nobody_steps_aside_while_somebody_can_move() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", owned="2", acknowledged="2"))
    changed(ledger, row("a", owned="2", acknowledged="1"), row("b", owned="3", acknowledged="2"))
    assert break_deadlocks(ledger) == ()


def test_where_only_its_own_old_cpu_is_left_it_stays_there_and_lets_others_come() -> None:
    """CPU 5 is to be reserved, and who runs on the reserved CPU 0 must leave it to the owner of CPU 5."""
    system = replace(row("system", acknowledged="0"))
    ledger = ledger_with(
        replace(system, grant=replace(system.grant, kind=CpuKind.RESERVED)),
        row("a", owned="5", acknowledged="5"),
        row("b", owned="1-4,6-7", acknowledged="1-4,6-7"),
    )
    grants = [r.grant for r in ledger.active() if r.key.name != "a"]
    ledger.use_policy(small_policy("5"), Allocations().with_grants(*grants, row("a", owned="0").grant))
    bring_all(ledger, Random(1))
    assert on(ledger) == {"system": "5", "a": "0", "b": "1-4,6-7"}


OWNERS = st.lists(st.sampled_from(["a", "b", "c", "d", "nobody"]), min_size=7, max_size=7)


def spread(owners: Sequence[str]) -> dict[str, str]:
    """CPUs 1 to 7 by owner, as lists; '' for who has none and shares the rest, or the reserved CPU 0."""
    names = ("a", "b", "c", "d")
    return {name: str(CpuSet.of(cpu + 1 for cpu, owner in enumerate(owners) if owner == name)) for name in names}


@settings(max_examples=100, deadline=None)
@given(OWNERS, OWNERS, st.randoms(use_true_random=False))
def test_any_exchange_of_cpus_comes_to_its_end(before: Sequence[str], after: Sequence[str], random: Random) -> None:
    ledger = ledger_with(*(row(name, owned=cpus) for name, cpus in spread(before).items()))
    for key, pinning in ledger.desired().items():
        ledger.put(replace(row(key.name, owned=spread(before)[key.name]), acknowledged=pinning))
        ledger.confirm(key, pinning)
    for name, cpus in spread(after).items():
        now = ledger.get(row(name).key)
        assert now is not None
        ledger.put(replace(now, grant=row(name, owned=cpus).grant))
    bring_all(ledger, random)
    assert on(ledger) == {key.name: str(pinning.cpus) for key, pinning in ledger.desired().items()}


def test_two_owners_that_come_to_share_do_not_wait_for_each_other() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", owned="2", acknowledged="2"))
    changed(ledger, row("a", acknowledged="1"), row("b", acknowledged="2"))
    bring_all(ledger, Random(1))
    assert on(ledger) == {"a": "1-7", "b": "1-7"}


def test_an_owner_that_comes_to_share_what_it_is_on_lets_others_come() -> None:
    ledger = ledger_with(
        row("a", owned="1-4,6-7", acknowledged="1-4,6-7"),
        row("b", owned="5", acknowledged="5"),
        row("c", acknowledged="0"),
    )
    changed(ledger, row("b", acknowledged="5"))
    bring_all(ledger, Random(1))
    assert on(ledger)["c"] == "5"


def test_without_a_cpu_that_nobody_owns_nobody_can_step_aside() -> None:
    rows = (row("a", owned="0-3", acknowledged="0-3"), row("b", owned="4-7", acknowledged="4-7"))
    ledger = ledger_with(*rows)
    ledger.use_policy(small_policy(""), ledger.allocations)
    changed(ledger, row("a", owned="4-7", acknowledged="0-3"), row("b", owned="0-3", acknowledged="4-7"))
    assert break_deadlocks(ledger) == ()
    assert ledger.unsettled() == ()


def test_a_plan_that_is_taken_back_ends_the_parking() -> None:
    first = (row("a", owned="1", acknowledged="1"), row("b", owned="2", acknowledged="2"))
    ledger = changed(ledger_with(*first), row("a", owned="2", acknowledged="1"), row("b", owned="1", acknowledged="2"))
    break_deadlocks(ledger)
    changed(ledger, *first)
    break_deadlocks(ledger)
    assert str(confirmed_cpus(ledger, first[0].key)) == "1"


def placed(policy: Policy, sizes: Sequence[int]) -> Allocations:
    """Containers of these sizes in mCPU, as far as they fit; odd ones are Burstable."""
    held = Allocations()
    for number, mcpu in enumerate(sizes):
        qos = QosClass.BURSTABLE if mcpu % 2 else QosClass.GUARANTEED
        decision = policy.decide(held, request(f"c{number:02}", mcpu, qos=qos))
        if isinstance(decision, Placed):
            held = held.with_grants(decision.grant, *decision.moved)
    return held


def policy_on(machine: Machine, available: CpuSet, reserved: CpuSet) -> Policy:
    return build_policy("topology-aware", machine, TopologyAwareOptions(available, reserved & available))


@st.composite
def cpus_of(draw: st.DrawFn, machine: Machine) -> tuple[CpuSet, CpuSet]:
    """Some available CPUs, and one reserved at least: without a CPU that nobody owns nobody can step aside."""
    online = sorted(machine.online - machine.isolated) or sorted(machine.online)
    available = draw(st.sets(st.sampled_from(online), min_size=max(1, len(online) // 2)))
    reserved = draw(st.sets(st.sampled_from(sorted(available)), min_size=1, max_size=2))
    return CpuSet.of(available), CpuSet.of(reserved)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_after_any_forced_change_everybody_comes_where_he_should_and_no_promise_is_broken(data: st.DataObject) -> None:
    machine = data.draw(machines(max_cpus=16))
    before, after = (policy_on(machine, *data.draw(cpus_of(machine))) for _ in range(2))
    sizes = data.draw(st.lists(st.sampled_from([0, 101, 500, 1000, 1000, 1500, 2000, 2000, 3000]), max_size=12))
    held = placed(before, sizes)
    ledger = Ledger(before)
    pinnings = before.pinnings(held)
    for number, grant in enumerate(held.grants):
        pinning = pinnings[grant.container]
        ledger.put(Row(grant, "sandbox", f"id-{number}", "running", pinning, number))
        ledger.confirm(grant.container, pinning)
    ledger.use_policy(after, after.reinstate(ledger.allocations).allocations)
    bring_all(ledger, data.draw(st.randoms(use_true_random=False)))
    wanted = {key.name: str(pinning.cpus) for key, pinning in ledger.desired().items()}
    assert on(ledger) == wanted


def test_who_waits_for_a_cycle_without_being_in_it_does_not_step_aside() -> None:
    ledger = ledger_with(
        row("a", owned="3", acknowledged="3"),
        row("b", owned="1,4", acknowledged="1,4"),
        row("c", owned="2", acknowledged="2"),
    )
    changed(
        ledger,
        row("a", owned="4", acknowledged="3"),
        row("b", owned="2", acknowledged="1,4"),
        row("c", owned="1", acknowledged="2"),
    )
    assert [key.name for key in break_deadlocks(ledger)] == ["b"]
    bring_all(ledger, Random(1))


def test_who_is_in_a_cycle_steps_aside_though_it_waits_for_others_as_well_and_not_these() -> None:
    ledger = ledger_with(
        row("b", owned="1", acknowledged="1"),
        row("c", owned="2", acknowledged="2"),
        row("a", owned="5", acknowledged="5"),
        row("s", acknowledged="3-4,6-7"),
    )
    changed(
        ledger,
        row("b", owned="2,5", acknowledged="1"),
        row("c", owned="1", acknowledged="2"),
        row("a", owned="6", acknowledged="5"),
    )
    assert [key.name for key in break_deadlocks(ledger)] == ["b"]
    bring_all(ledger, Random(1))


def test_one_that_is_where_it_should_be_gives_up_what_another_on_its_cpus_waits_for() -> None:
    """No update is due of ``h``, to which CPU 4 was granted for 1: it has 1 alone until ``s`` has left 4, for 1."""
    there = row("h", owned="1", acknowledged="1,4-7")
    mixed = replace(there, grant=replace(there.grant, kind=CpuKind.MIXED, shared_mcpu=100))
    ledger = ledger_with(mixed, row("s", acknowledged="4-7"), row("x", owned="2-3", acknowledged="2-3"))
    after = replace(mixed, grant=replace(mixed.grant, exclusive=CpuSet.parse("4")))
    changed(ledger, after, row("s", acknowledged="4-7", pool="socket #0"))
    bring_all(ledger, Random(0))
    assert (on(ledger)["h"], on(ledger)["s"]) == ("1,4-7", "1")
    assert str(confirmed_cpus(ledger, after.key)) == "4"
