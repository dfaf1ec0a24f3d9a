from fractions import Fraction

from policies.alignment import Alignment
from policies.base import CpuKind, Grant
from policies.costs.catalog import DeviceCatalog
from policies.costs.select import CostTerm, Selection, SelectMethod
from policies.device_grants import cost_names
from policies.topology_aware.device_choice import reasons
from policies.topology_aware.device_choice.inventory import DeviceStock, holder_name
from policies.topology_aware.device_choice.reasons import Scope
from sysfs.cpuset import NodeSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import four_nodes, request
from tests.unit.policies.cost_devices import GPU, NIC, amounts, inventory

PAIR = (f"{GPU}/gpu0", f"{GPU}/gpu1")


def solution(*, is_optimal: bool = True) -> Selection:
    return Selection((), 22, SelectMethod.EXACT, is_optimal, Fraction(61, 2), ())


def holding(name: str, *devices: str) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=listed(*devices))


def stock(*grants: Grant) -> DeviceStock:
    catalog = DeviceCatalog(four_nodes(), inventory((), f"{GPU}/0-19"))
    held = {name: holder_name(grant) for grant in grants for name in cost_names(grant.devices)}
    free = {GPU: tuple(name for name in catalog.devices[GPU] if name not in held)}
    return DeviceStock(catalog, amounts(gpu=3), free, held)


def test_the_choice_says_what_it_costs_and_whether_less_is_possible() -> None:
    assert reasons.chosen(PAIR, solution(), Scope(2, 2)).text == (
        f"{GPU} gpu0, gpu1: cost 22 with 2 CPUs, proved to be the lowest; greedy walk alone: 30.5"
    )
    assert "not proved to be the lowest" in reasons.chosen(PAIR, solution(is_optimal=False), Scope(2, 2)).text
    assert "not proved" in reasons.chosen(PAIR, solution(), Scope(2, 2, is_cut=True)).text
    assert "cost 22, proved" in reasons.chosen(PAIR, solution(), Scope(0, 0)).text
    assert "with 64 CPUs of the 100," in reasons.chosen(PAIR, solution(), Scope(64, 100)).text
    assert "no cost of them is known" in reasons.chosen(PAIR, None, Scope(0, 0)).text


def test_terms_stand_by_their_cost() -> None:
    terms = [CostTerm((GPU, GPU), 1, 4), CostTerm((NIC, "cpu"), 2, 20)]
    assert reasons.costs(terms).text == f"what the set costs: {NIC} and CPUs 20 (2 pairs), among {GPU} 4 (1 pair)"


def test_no_sentence_grows_with_the_number_of_devices_terms_or_holders() -> None:
    many = [f"example.com/t{kind}/{i}" for kind in range(60) for i in range(40)]
    assert len(reasons.devices_text(many)) < 500
    assert "and 32 more" in reasons.devices_text(many)
    assert reasons.devices_text(many).endswith("and 52 more types")
    assert len(reasons.costs([CostTerm((GPU, NIC), 9, 9)] * 200).text) < 600
    held = stock(*(holding(f"pod{i}/c", f"{GPU}/{i}") for i in range(19)))
    assert reasons.short(held, GPU, 3).text.endswith("1 by default/pod15/c and 11 more")


def test_a_silent_device_is_named() -> None:
    assert reasons.silent(PAIR[:1]).text.startswith(f"{GPU} gpu0 says nothing about its costs, which counts as 0")
    assert reasons.silent(PAIR).text.startswith(f"{GPU} gpu0, gpu1 say nothing of costs, which count as 0")


def test_kept_and_lost_devices_are_told_from_those_of_running_containers() -> None:
    assert reasons.kept(PAIR, runs=False).text == f"its earlier {GPU} gpu0, gpu1 are free and kept"
    assert reasons.kept(PAIR[:1], runs=True).text == f"its {GPU} gpu0 stays with it while it runs"
    assert reasons.kept(PAIR, runs=True).text == f"its {GPU} gpu0, gpu1 stay with it while it runs"
    assert "could not be had again" in reasons.lost(PAIR).text


def test_an_unknown_type_is_compared_with_known_ones() -> None:
    assert reasons.unknown("example.com/gpx", [GPU, NIC]).text.endswith(f"did you mean {GPU}?")
    assert reasons.unknown("fpga", [NIC, GPU]).text.endswith(f"listed types: {GPU}, {NIC}")
    assert "costs.dir" in reasons.unknown("fpga", []).text


def test_a_shortage_names_what_is_free_and_who_holds_the_rest() -> None:
    held = stock(holding("a/c", f"{GPU}/0"), holding("b/c", f"{GPU}/1", f"{GPU}/2"))
    assert reasons.short(held, GPU, 18).text == (
        f"wanted 18 of {GPU}, free 17 of 20; held: 2 by default/b/c, 1 by default/a/c"
    )
    assert reasons.short(stock(), GPU, 21).text == f"wanted 21 of {GPU}, free 20 of 20"


def test_devices_outside_the_nodes_are_counted() -> None:
    within = Alignment(NodeSet.of([1]), NodeSet.of([1]))
    assert reasons.outside(stock(), GPU, 3, 2, reasons.nodes_of(within)).text == (
        f"wanted 3 of {GPU} on NUMA node 1, where its topology policy keeps it: free 2 there, 18 elsewhere"
    )
    assert reasons.outside(stock(), GPU, 3, 2, "").code == "strict-topology"
    assert (
        reasons.beyond(PAIR, "NUMA nodes 0-1").text == f"{GPU} gpu0, gpu1 not on NUMA nodes 0-1: too few are free there"
    )


def test_a_device_of_two_saved_grants_is_said_to_count_for_both() -> None:
    text = reasons.claimed_twice(PAIR[:1], holding("a/c")).text
    assert "also held by default/a/c: counted for both" in text
