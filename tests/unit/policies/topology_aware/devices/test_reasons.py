from collections.abc import Sequence
from fractions import Fraction

from policies.alignment import Alignment
from policies.base import CpuKind, Grant
from policies.device_requests import DeviceAmount
from policies.devices import CUT
from policies.devices.costs import CostTerm, Selection, SelectMethod
from policies.topology_aware.devices import reasons
from policies.topology_aware.devices.held import UNHEALTHY, DeviceClaim
from policies.topology_aware.devices.reasons import Scope
from sysfs.cpuset import NodeSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import request
from tests.unit.policies.cost_devices import GPU, NIC

PAIR = (f"{GPU}/gpu0", f"{GPU}/gpu1")
BESIDE_2 = Scope(2, 2)
HELD = listed(*PAIR)
WITHIN = Alignment(NodeSet.of([0, 1]), NodeSet.of([0, 1]))


def chosen(terms: Sequence[CostTerm] = (), scope: Scope = BESIDE_2, *, is_optimal: bool = True) -> list[str]:
    found = Selection((), 22, SelectMethod.EXACT, is_optimal, Fraction(61, 2), tuple(terms))
    return [reason.text for reason in reasons.chosen(PAIR, found, scope)]


def holding(name: str, *devices: str) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=listed(*devices))


def test_the_choice_says_what_it_costs_and_whether_less_is_possible() -> None:
    assert chosen() == [f"{GPU} gpu0, gpu1: cost 22 with 2 CPUs, proved to be the lowest; greedy walk alone: 30.5"]
    assert "not proved to be the lowest" in chosen(is_optimal=False)[0]
    assert "not proved" in chosen(scope=Scope(2, 2, is_cut=True))[0]
    assert "cost 22, proved" in chosen(scope=Scope(0, 0))[0]
    assert "with 64 CPUs of the 100," in chosen(scope=Scope(64, 100))[0]
    assert "no cost of them is known" in reasons.chosen(PAIR, None, Scope(0, 0))[0].text


def test_terms_stand_by_their_cost() -> None:
    terms = [CostTerm((GPU, GPU), 1, 4), CostTerm((NIC, "cpu"), 2, 20)]
    assert chosen(terms)[1] == f"what the set costs: {NIC} and CPUs 20 (2 pairs), among {GPU} 4 (1 pair)"


def test_no_sentence_grows_with_the_number_of_devices_terms_or_holders() -> None:
    many = [f"example.com/t{kind}/{i}" for kind in range(60) for i in range(40)]
    assert len(reasons.devices_text(many)) < 500
    assert "and 32 more" in reasons.devices_text(many)
    assert reasons.devices_text(many).endswith("and 52 more types")
    assert len(chosen([CostTerm((GPU, NIC), 9, 9)] * 200)[1]) < 600
    held = {f"default/pod{i}/c": 1 for i in range(19)}
    assert reasons.short(DeviceAmount(GPU, 3), 1, 20, held).text.endswith("1 by default/pod15/c and 11 more")


def test_a_silent_device_is_named() -> None:
    assert reasons.silent(PAIR[:1]).text.startswith(f"{GPU} gpu0 says nothing about its costs, which counts as 0")
    assert reasons.silent(PAIR).text.startswith(f"{GPU} gpu0, gpu1 say nothing of costs, which count as 0")


def test_kept_and_lost_devices_are_told_from_those_of_running_containers() -> None:
    assert reasons.kept(HELD, runs=False).text == f"its earlier {GPU} gpu0, gpu1 are free and kept"
    assert reasons.kept(HELD[:1], runs=True).text == f"its {GPU} gpu0 stays with it while it runs"
    assert reasons.kept(HELD, runs=True).text == f"its {GPU} gpu0, gpu1 stay with it while it runs"
    assert "could not be had again" in reasons.lost(HELD).text


def test_an_unknown_type_is_compared_with_known_ones() -> None:
    assert reasons.unknown("example.com/gpx", [GPU, NIC]).text.endswith(f"did you mean {GPU}?")
    assert reasons.unknown("fpga", [NIC, GPU]).text.endswith(f"listed types: {GPU}, {NIC}")
    assert "costs.dir" in reasons.unknown("fpga", []).text


def test_a_shortage_names_what_is_free_and_who_holds_the_rest() -> None:
    holders = {"default/a/c": 1, UNHEALTHY: 3, CUT: 1, "default/b/c": 2}
    assert reasons.short(DeviceAmount(GPU, 18), 14, 20, holders).text == (
        f"wanted 18 of {GPU}, free 14 of 20; held: 2 by default/b/c, 1 by default/a/c; unhealthy: 3; {CUT}: 1"
    )
    assert reasons.short(DeviceAmount(GPU, 21), 20, 20, {}).text == f"wanted 21 of {GPU}, free 20 of 20"


def test_devices_outside_the_nodes_are_counted() -> None:
    outside = reasons.outside_by_cost(DeviceAmount(GPU, 3), 2, 20, WITHIN)
    assert outside.text == (
        f"wanted 3 of {GPU} on NUMA nodes 0-1, where its topology policy keeps it: free 2 there, 18 elsewhere"
    )
    assert outside.code == "strict-topology"
    beyond = reasons.beyond_by_cost(PAIR, WITHIN).text
    assert beyond == f"{GPU} gpu0, gpu1 not on NUMA nodes 0-1: too few are free there"


def test_a_device_of_two_saved_grants_is_said_to_count_for_both() -> None:
    text = reasons.claimed_twice(HELD[:1], [DeviceClaim("default/a/c", "a", HELD[0])]).text
    assert "also held by default/a/c: counted for both" in text
