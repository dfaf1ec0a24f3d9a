from dataclasses import replace

import pytest

from policies.answers import Default
from policies.base import Affinity, ContainerKey, Expression, Pod, QosClass, Request
from policies.preferences import BurstLevel, CpuPriority, Preferences, Threads
from policies.topology_aware.defaults import defaults_of
from policies.topology_aware.options import TopologyAwareOptions
from sysfs.cpuset import CpuSet

OPTIONS = TopologyAwareOptions(CpuSet.parse("0-7"), CpuSet.parse("0"))


def request(mcpu: int, qos: QosClass = QosClass.GUARANTEED, **preferences: object) -> Request:
    pod = Pod("uid", "web", "default", qos)
    return Request(ContainerKey("uid", "c0"), pod, mcpu, preferences=Preferences(**preferences))  # type: ignore[arg-type]


def said(asked: Request, options: TopologyAwareOptions = OPTIONS) -> dict[str, str]:
    return {d.field: d.value for d in defaults_of(asked, options)}


def test_one_whole_cpu_is_isolated_and_exclusive_by_option() -> None:
    assert said(request(1000)) == {
        "prefer_isolated": "preferred",
        "prefer_shared": "whole CPUs are exclusive",
        "threads": "any",
    }


def test_several_cpus_are_isolated_by_annotation_only() -> None:
    assert "prefer_isolated" not in said(request(2000))


def test_what_an_annotation_says_no_option_decides() -> None:
    assert said(request(1000, prefer_isolated=False, prefer_shared=True)) == {}
    assert "prefer_isolated" not in said(request(1000, require_isolated=True))
    assert said(request(500, QosClass.BURSTABLE, burst_level=BurstLevel.NUMA)) == {}


def test_who_gets_shared_cpus_by_option_is_not_told_of_isolated_ones() -> None:
    assert said(request(1000), replace(OPTIONS, prefer_shared=True)) == {"prefer_shared": "preferred"}


def test_a_container_that_is_left_alone_is_decided_on_by_nothing() -> None:
    assert said(request(1000, preserve_cpu=True)) == {}


def test_a_burstable_container_without_a_limit_gets_its_width_by_option() -> None:
    assert defaults_of(request(500, QosClass.BURSTABLE), OPTIONS) == (
        Default("burst_level", "package", "topologyAware.UnlimitedBurstable=package"),
    )


@pytest.mark.parametrize(
    ("namespace", "option"),
    [("kube-system", "kube-system always is"), ("infra-dns", "topologyAware.ReservedPoolNamespaces: infra-*")],
)
def test_a_reserved_namespace_names_what_reserves_it(namespace: str, option: str) -> None:
    asked = request(500)
    asked = replace(asked, pod=replace(asked.pod, namespace=namespace))
    options = replace(OPTIONS, reserved_namespaces=("other-*", "infra-*"))
    assert [(d.field, d.option) for d in defaults_of(asked, options)] == [("prefer_reserved", option)]


def test_options_that_apply_to_everybody_are_named() -> None:
    options = replace(OPTIONS, colocate_pods=True, pin_memory=False, cpu_priority=CpuPriority.HIGH)
    assert said(request(0, QosClass.BEST_EFFORT), options) == {
        "priority": "high",
        "burst_level": "package",
        "affinities": "near the containers of its pod",
        "preserve_memory": "those of no container are written",
    }


def test_colocation_is_a_default_of_containers_without_affinities_only() -> None:
    options = replace(OPTIONS, colocate_pods=True, colocate_namespaces=True)
    plain = request(500)
    wished = replace(plain, affinities=(Affinity(Expression("name", "Exists")),))
    told = [d.value for d in defaults_of(plain, options) if d.field == "affinities"]
    assert told == ["near the containers of its pod", "near the containers of its namespace"]
    assert "affinities" not in said(wished, options)


def test_an_option_hides_siblings_from_containers_that_share_too() -> None:
    shares = request(500, QosClass.BURSTABLE)
    assert said(shares, replace(OPTIONS, threads=Threads.HIDE))["threads"] == "hide"
    assert "threads" not in said(shares, replace(OPTIONS, threads=Threads.OWN_CORE))
    assert "threads" not in said(shares)


def test_an_option_says_that_whole_cores_are_required_where_such_are_wanted() -> None:
    strict = replace(OPTIONS, strict_threads=True)
    assert "strict_threads" not in said(request(2000), strict)
    assert said(request(2000, threads=Threads.OWN_CORE), strict)["strict_threads"].startswith("required")
    assert "strict_threads" not in said(request(2000, threads=Threads.OWN_CORE, strict_threads=False), strict)
