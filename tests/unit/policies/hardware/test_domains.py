from dataclasses import replace

from hypothesis import given

from policies.hardware.domains import Domain, Level, build_domains
from sysfs.assemble import assemble
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import facts_of, machines, merge_nodes, small_machine, with_caches


def shape(domain: Domain) -> str:
    inner = " ".join(shape(c) for c in domain.children)
    return f"{domain.level.name.lower()}[{inner or CpuSet(domain.cpus)}]"


def walk(domain: Domain) -> list[Domain]:
    return [domain, *(d for c in domain.children for d in walk(c))]


def test_every_level_of_a_plain_machine_nests() -> None:
    machine = small_machine(packages=1, dies=2, cores=1, l3=["0-1", "2-3"])
    expected = "root[package[die[node[l3[l2[core[0-1]]]]] die[node[l3[l2[core[2-3]]]]]]]"
    assert shape(build_domains(machine).root) == expected


def test_nodes_that_span_dies_are_left_out_with_a_note() -> None:
    machine = merge_nodes(small_machine(packages=1, dies=2, cores=1, threads=1), 0, 1)
    domains = build_domains(machine)
    assert shape(domains.root) == "root[package[die[l3[l2[core[0]]]] die[l3[l2[core[1]]]]]]"
    assert domains.notes == ("socket #0: its NUMA nodes are not pools, since NUMA node 0 does not lie inside one die",)


def test_only_the_package_whose_sets_do_not_nest_loses_the_level() -> None:
    machine = merge_nodes(small_machine(packages=2, dies=2, cores=1, threads=1), 0, 1)
    levels = [[d.level for d in walk(package)] for package in build_domains(machine).root.children]
    assert [Level.NODE in found for found in levels] == [False, True]


def test_packages_inside_one_node_are_no_level() -> None:
    domains = build_domains(merge_nodes(small_machine(packages=2, cores=1, threads=1), 0, 1))
    assert shape(domains.root) == "root[node[l3[l2[core[0]]] l3[l2[core[1]]]]]"
    assert domains.notes == ("sockets #0-1 are not pools, since each shares a NUMA node with another",)


def test_the_packages_that_hold_their_nodes_stay_beside_those_that_do_not() -> None:
    domains = build_domains(merge_nodes(small_machine(packages=3, cores=1, threads=1), 0, 1))
    assert [(d.level, d.id, str(CpuSet(d.cpus))) for d in domains.root.children] == [
        (Level.PACKAGE, 2, "2"),
        (Level.NODE, 0, "0-1"),
    ]


def test_cpus_outside_of_all_nodes_are_inside_the_root() -> None:
    machine = merge_nodes(small_machine(packages=2, cores=2, threads=1), 0, 1)
    facts = facts_of(machine)
    nodes = [replace(facts.nodes[0], cpus=CpuSet.parse("0-2"))]
    assert shape(build_domains(assemble(replace(facts, nodes=nodes))).root) == (
        "root[node[l2[core[0]] l2[core[1]] l2[core[2]]] l2[core[3]]]"
    )


def test_several_nodes_that_dies_do_not_hold_beat_the_dies() -> None:
    machine = merge_nodes(small_machine(packages=1, dies=3, cores=1, threads=1), 0, 1)
    domains = build_domains(machine)
    assert shape(domains.root) == "root[package[node[l3[l2[core[0]]] l3[l2[core[1]]]] node[l3[l2[core[2]]]]]]"
    assert domains.notes == ("socket #0: its dies are not pools, since NUMA node 0 does not lie inside one die",)


def test_a_cache_that_spans_nodes_is_no_domain_and_no_news() -> None:
    domains = build_domains(small_machine(packages=1, nodes=2, cores=1, l3=["0-3"]))
    assert Level.L3 not in [d.level for d in walk(domains.root)]
    assert domains.notes == ()


def test_cpus_that_a_level_does_not_cover_still_lie_in_the_level_above() -> None:
    domains = build_domains(small_machine(packages=1, cores=2, l3=["0-1"]))
    assert shape(domains.root) == "root[package[die[node[l3[l2[core[0-1]]] l2[core[2-3]]]]]]"


def test_caches_that_overlap_are_no_domains() -> None:
    domains = build_domains(with_caches(small_machine(packages=1, cores=2), 3, "0-2", "2-3"))
    assert shape(domains.root) == "root[package[die[node[l2[core[0-1]] l2[core[2-3]]]]]]"


def test_a_cpu_is_a_core_of_its_own_where_cores_do_not_nest() -> None:
    domains = build_domains(with_caches(small_machine(packages=1, cores=2), 2, "0", "1-3"))
    assert shape(domains.root) == "root[package[die[node[l3[l2[core[0]] l2[core[1] core[2] core[3]]]]]]]"


@given(machines())
def test_children_are_disjoint_and_inside_and_the_cores_hold_every_cpu(machine: Machine) -> None:
    domains = build_domains(machine)
    everything = walk(domains.root)
    assert [d.index for d in everything] == list(range(domains.count))
    for domain in everything:
        assert sum(c.cpus for c in domain.children) & ~domain.cpus == 0
        assert sum(c.cpus.bit_count() for c in domain.children) in (0, domain.cpus.bit_count())
    cores = [d.cpus for d in everything if d.level is Level.CORE]
    assert sum(cores) == machine.online.mask
