from dataclasses import replace

import pytest

from cri_proxy.cli.render.cpus import render_cpus
from cri_proxy.node.status.model import StatusView
from sysfs.cpuset import CpuSet
from sysfs.show.cpu_map import CacheDomain, CpuMap, NodeCores, PackageCores
from tests.fakes.views import status_view


def machine(**sets: CpuSet) -> StatusView:
    cores = tuple(CpuSet.parse(text) for text in ("0-1", "2-3", "4-5"))
    shown = CpuMap((PackageCores(0, (NodeCores(1, (CacheDomain(0, cores),)),)),), **sets)
    return replace(status_view(), map=shown)


def test_an_owner_is_named_with_the_place_of_its_cpus() -> None:
    text = render_cpus(machine(), CpuSet.parse("2-3"))
    assert text.splitlines()[:2] == [
        "CPUs 2-3: owned by default/web/c0",
        "  package 0, NUMA node 1, core of CPUs 2-3",
    ]


def test_sharers_and_those_who_are_not_pinned_are_listed() -> None:
    text = render_cpus(machine(), CpuSet.parse("1"))
    assert text.startswith("CPU 1: shared\n")
    assert "may run there:\n" in text
    assert "    default/web/c1: " in text
    assert ": not pinned" in text


@pytest.mark.parametrize(
    ("sets", "use"),
    [
        ({"reserved": CpuSet.parse("5")}, "reserved for the system"),
        ({"isolated": CpuSet.parse("5")}, "kernel-isolated, without an owner"),
        ({"unavailable": CpuSet.parse("5")}, "not available to containers"),
        ({"offline": CpuSet.parse("5")}, "offline"),
    ],
)
def test_cpus_without_an_owner_say_what_they_are_for(sets: dict[str, CpuSet], use: str) -> None:
    assert render_cpus(machine(**sets), CpuSet.parse("5")).startswith(f"CPU 5: {use}\n")


def test_nobody_on_a_shared_cpu_is_said() -> None:
    empty = replace(machine(), containers=())
    assert render_cpus(empty, CpuSet.parse("4-5")).splitlines() == [
        "CPUs 4-5: shared",
        "  package 0, NUMA node 1, core of CPUs 4-5",
        "  no container may run there now",
    ]
