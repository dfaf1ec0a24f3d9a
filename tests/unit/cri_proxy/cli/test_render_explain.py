"""Why a container sits where it sits."""

from dataclasses import replace

import pytest

from cri_proxy.cli.render_explain import MEANINGS, bytes_text, render_decision, render_explain
from cri_proxy.cri.annotations import WITHOUT_EFFECT
from cri_proxy.http.view import ExplainView
from policies.base import Previous, Reason, TopologyHint
from policies.score import Key
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.views import container, decision_view, ranked

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

why
  - socket #0 is the deepest pool that has 2 exclusive CPUs free

pools, best first
  pool       depth  left  outcome
  socket #0  1      1000  chosen
  socket #1  1      500   not tried
  root       0      4500  not tried

  compared from left to right, the larger value wins; other fields decided
  nothing
  depth  deeper pools are smaller and closer
  left   what is left in it afterwards

others changed by it
  - default/web/c1: now CPU 1, memory node 0

not understood, and ignored
  ! annotation cri-proxy.io/affinity: 'x': expected a list"""


def test_the_whole_story() -> None:
    assert render_explain(ExplainView((decision_view(),))) == EXPECTED


def test_every_field_of_the_key_is_explained() -> None:
    assert set(MEANINGS) == set(Key._fields)


def test_a_refusal_says_what_was_missing() -> None:
    refused = replace(
        decision_view(), outcome="refused", container=None, reasons=(Reason("cpu-full", "wanted 2, 1 free"),)
    )
    text = render_decision(refused)
    assert "holds nothing now" in text
    assert "refused 2023-11-14" in text
    assert "  - wanted 2, 1 free" in text


def test_what_was_restored_says_that_its_ranking_is_gone() -> None:
    text = render_decision(
        replace(decision_view(), outcome="restored", decided_at_seconds=None, ranking=(), reasons=())
    )
    assert "decided before the daemon started" in text
    assert "pools, best first" not in text


def test_what_moved_and_what_waits_is_said() -> None:
    held = container("c0", "mixed", "2-4", exclusive=CpuSet.parse("2-3"), notes=("an update waits",))
    text = render_decision(replace(decision_view(), container=held, moved=("default/log/l",)))
    assert "CPUs 2-4, 2 exclusive + shared, 2-3 its own" in text
    assert "  ! an update waits" in text
    assert "default/log/l: moved to a wider pool" in text


def test_hints_and_the_earlier_place_are_part_of_the_request() -> None:
    hint = TopologyHint("/dev/nvidia0", CpuSet.parse("0-3"), NodeSet.of([0]))
    request = replace(decision_view().request, hints=(hint,), previous=Previous("socket #0", CpuSet.parse("2-3")))
    text = render_decision(replace(decision_view(), request=request))
    assert "/dev/nvidia0: CPUs 0-3, node 0" in text
    assert "earlier place  socket #0, CPUs 2-3" in text


def test_a_long_ranking_is_cut_and_says_so() -> None:
    ranking = tuple(ranked(f"NUMA node #{i}", "not tried", fits=1, left=-i) for i in range(32))
    text = render_decision(replace(decision_view(), ranking=ranking))
    assert "... and 20 more, all worse" in text


def test_no_line_is_longer_than_a_terminal() -> None:
    values = {name: i * 1000.0 for i, name in enumerate(Key._fields)}
    ranking = tuple(
        ranked(f"NUMA node #{i}/L3 #{i}", "too small: 0m free, of which 0 CPUs can be owned", **{**values, name: -i})
        for i, name in enumerate(Key._fields)
    )
    text = render_decision(replace(decision_view(), ranking=ranking))
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (1 << 30, "1Gi"), (3 << 20, "3Mi"), (1000, "1000")])
def test_bytes_are_shown_in_full(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_an_annotation_without_effect_is_named_apart_from_those_not_understood() -> None:
    decision = decision_view()
    key = "hide-hyperthreads.cri-proxy.io/pod"
    request = replace(decision.request, origins=((f"{WITHOUT_EFFECT}{key}", key),))
    text = render_decision(replace(decision, request=request, problems=()))
    assert text.endswith(f"known, without effect yet\n  - annotation {key}")
    assert "not understood" not in text
