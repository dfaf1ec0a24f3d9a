"""Why a container sits where it sits: the whole text, section by section."""

from dataclasses import replace

from cri_proxy.cli.render.explain import render_decision, render_explain
from cri_proxy.node.status.model import ExplainView
from cri_proxy.state.decisions import Change
from policies.base import Pod, QosClass, Reason
from sysfs.cpuset import CpuSet
from tests.fakes.views import container, decision_view

EXPECTED = """\
default/web/c0
  CPUs 2-3, 2 exclusive, in socket #0, memory node 0 (running)
  placed 2023-11-14 22:13:20 UTC, decided in 0.8 ms

asked for
  CPU            2, limit 2            from cpu_quota, cpu_period
  memory         100Mi, limit 100Mi
  QoS class      Guaranteed            from cgroup_parent
  isolated CPUs  not wanted            from cri-proxy.io/prefer-isolated-cpus
  anti-affinity  weight -5: name Equals db, in its pod
  shared CPUs    whole CPUs are exclusive  by default: PreferSharedCPUs=false

why
  - socket #0 is the deepest pool that has 2 exclusive CPUs free

pools, best first
  pool       depth  left  what came of it
  socket #0  1      1000  chosen
  socket #1  1      500   would have less left
  root       0      4500  is larger

  compared from left to right, the larger value wins; the others are equal, or
  decided nothing
  depth  deeper pools are smaller and closer
  left   what is left in it afterwards

others changed by it
  - default/web/c1: from CPUs 1-3 to CPU 1

not understood, and ignored
  ! annotation cri-proxy.io/affinity: 'x': expected a list"""


def test_the_whole_story() -> None:
    assert render_explain(ExplainView((decision_view(),))) == EXPECTED


def test_a_refusal_says_what_was_missing() -> None:
    reasons = (Reason("cpu-full", "wanted 2, 1 free"),)
    text = render_decision(replace(decision_view(), outcome="refused", container=None, granted=None, reasons=reasons))
    assert "  holds nothing now\n  refused 2023-11-14" in text
    assert "why\n  - wanted 2, 1 free" in text
    assert "pools, best first" in text


def test_a_container_that_was_not_created_says_why_not() -> None:
    text = render_decision(replace(decision_view(), outcome="not created", container=None, failure="no such image"))
    assert "  not created 2023-11-14" in text
    assert "  ! not created: no such image" in text


def test_what_was_restored_says_that_its_record_is_gone() -> None:
    text = render_decision(
        replace(decision_view(), outcome="restored", decided_at_seconds=None, ranking=(), reasons=())
    )
    assert "restored: no record of its decision is left" in text
    assert "pools, best first" not in text


def test_what_waits_is_marked() -> None:
    held = container("c0", "mixed", "2-4", exclusive=CpuSet.parse("2-3"), notes=("an update waits",))
    text = render_decision(replace(decision_view(), container=held))
    assert "CPUs 2-4, 2 exclusive + shared, 2-3 its own" in text
    assert "  ! an update waits" in text


def test_a_cold_start_says_when_it_ends() -> None:
    held = container("c0", "shared", "2-4", is_cold=True, warm_at_seconds=1_700_000_060.0)
    text = render_decision(replace(decision_view(), container=held))
    assert "in its cold start until 2023-11-14 22:14:20 UTC" in text.replace("\n  ", " ")


def test_reasons_for_the_cpus_and_for_the_memory_stand_apart() -> None:
    reasons = (
        Reason("pool", "it fits"),
        Reason("cpus-picked", "whole cores"),
        Reason("memory-widened", "node 1 as well"),
        Reason("displaced", "1 other container changed"),
    )
    text = render_decision(replace(decision_view(), reasons=reasons, company=("db draws it",)))
    assert "why\n  - it fits\n\nthese CPUs\n  - whole cores\n\nthis memory\n  - node 1 as well\n\n" in text
    assert "drawn or pushed by\n  - db draws it" in text
    assert "1 other container changed" not in text  # they are listed by name


def test_what_happened_since_and_what_is_different_now_is_told() -> None:
    history = (Change(1_700_000_100.0, "lifted", "from socket #0 to root, to make room for a/b/c"),)
    text = render_decision(replace(decision_view(), history=history, differences=("it is in root",)))
    assert "different since then\n  - it is in root" in text
    assert "before and since\n  2023-11-14 22:15:00  lifted: from socket #0 to root" in text


def test_an_annotation_without_effect_is_named_apart_from_those_not_understood() -> None:
    text = render_decision(replace(decision_view(), without_effect=("cri-proxy.io/rdtclass",), problems=()))
    assert text.endswith("known, without effect yet\n  - annotation cri-proxy.io/rdtclass")
    assert "not understood" not in text


def test_where_several_pods_are_meant_there_is_a_list_to_choose_from() -> None:
    first = decision_view()
    pod = Pod("uid-2", "web", "shop", QosClass.BURSTABLE)
    second = replace(first, container=None, outcome="refused", request=replace(first.request, pod=pod))
    assert render_explain(ExplainView((first, second))).splitlines() == [
        "several pods are meant; name one by NAMESPACE/POD or by its uid:",
        "  default/web/c0: CPUs 2-3, 2 exclusive, in socket #0, memory node 0 (running)",
        "    uid uid-web",
        "  shop/web/c0: refused, holds nothing",
        "    uid uid-2",
    ]
