from dataclasses import replace

from cri_proxy.cli.render.explain import render_displaced, render_explain, render_explanation, render_history
from cri_proxy.node.status.decision_views import ExplainView
from cri_proxy.state.decisions import GrantMove, HistoryEntry, Outcome, PinningChange
from policies.base import ContainerKey, Pod, QosClass, Reason
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.views import container, decision_record, explanation

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
  pool       depth  left  outcome
  socket #0  1      1000  chosen
  socket #1  1      500   would have less left
  root       0      4500  is larger

  compared from left to right, the larger value wins; fields that are equal, or
  decided nothing, are left out
  depth  deeper pools are smaller and closer
  left   its CPUs that are not reserved; isolated ones: those left, the widest
         pool first; for owners on a machine more than half full: what is left
         in the pool above

changes of other containers
  - default/web/c1: from CPUs 1-3 to CPU 1

annotations ignored
  ! annotation cri-proxy.io/affinity: 'x': expected a list"""
EMPTY = replace(decision_record(), displaced=(), displaced_count=0)


def test_the_whole_story() -> None:
    assert render_explain(ExplainView((explanation(),))) == EXPECTED


def test_a_refusal_says_what_was_missing() -> None:
    reasons = (Reason("cpu-full", "wanted 2, 1 free"),)
    text = render_explanation(
        replace(explanation(outcome=Outcome.REFUSED, granted=None, reasons=reasons), container=None)
    )
    assert "  holds nothing now\n  refused 2023-11-14" in text
    assert "why\n  - wanted 2, 1 free" in text
    assert "pools, best first" in text


def test_a_container_that_was_not_created_says_why_not() -> None:
    text = render_explanation(
        replace(explanation(outcome=Outcome.NOT_CREATED, failure="no such image"), container=None)
    )
    assert "  not created 2023-11-14" in text
    assert "  ! not created: no such image" in text


def test_what_was_restored_says_that_its_record_is_gone() -> None:
    text = render_explanation(explanation(outcome=Outcome.RESTORED, decided_at_seconds=None, ranking=(), reasons=()))
    assert "restored: no record of its decision is left" in text
    assert "pools, best first" not in text


def test_what_waits_is_marked() -> None:
    held = container("c0", "mixed", "2-4", exclusive=CpuSet.parse("2-3"), notes=("an update waits",))
    text = render_explanation(replace(explanation(), container=held))
    assert "CPUs 2-4, 2 exclusive + shared, 2-3 its own" in text
    assert "  ! an update waits" in text


def test_a_cold_start_says_when_it_ends() -> None:
    held = container("c0", "shared", "2-4", is_cold=True, warm_at_seconds=1_700_000_060.0)
    text = render_explanation(replace(explanation(), container=held))
    assert "in its cold start until 2023-11-14 22:14:20 UTC" in text.replace("\n  ", " ")


def test_reasons_for_the_cpus_and_for_the_memory_stand_apart() -> None:
    reasons = (
        Reason("pool", "it fits"),
        Reason("cpus-picked", "whole cores"),
        Reason("memory-widened", "node 1 as well"),
        Reason("displaced", "1 other container changed"),
        Reason("topology-merged", "NUMA node 1"),
    )
    text = render_explanation(explanation(reasons=reasons, affinity_reasons=("db draws it",)))
    apart = ("why\n  - it fits", "topology hints\n  - NUMA node 1", "choice of CPUs\n  - whole cores")
    assert "\n\n".join((*apart, "choice of memory\n  - node 1 as well\n\n")) in text
    assert "attracted or repelled by\n  - db draws it" in text
    assert "1 other container changed" not in text  # they are listed by name


def test_cpus_that_are_kept_for_devices_are_no_choice_of_devices() -> None:
    reasons = (Reason("device-cpus-kept", "wanted 2; CPUs 6-7 are kept"), Reason("devices-kept", "gpu 0 is kept"))
    text = render_explanation(explanation(outcome=Outcome.REFUSED, granted=None, reasons=reasons))
    assert "why\n  - wanted 2; CPUs 6-7 are kept\n\nchoice of devices\n  - gpu 0 is kept\n" in text


def test_what_happened_since_and_what_is_different_now_is_told() -> None:
    history = (HistoryEntry(1_700_000_100.0, "lifted", "from socket #0 to root, to make room for a/b/c"),)
    text = render_explanation(replace(explanation(history=history), differences=("it is in root",)))
    assert "changed since the decision\n  - it is in root" in text
    assert "history\n  2023-11-14 22:15:00  lifted: from socket #0 to root" in text


def test_an_annotation_without_effect_is_named_apart_from_those_not_understood() -> None:
    text = render_explanation(replace(explanation(problems=()), without_effect=("cri-proxy.io/rdtclass",)))
    assert text.endswith("annotations known, without effect yet\n  - cri-proxy.io/rdtclass")
    assert "annotations ignored" not in text


def test_where_several_pods_are_meant_there_is_a_list_to_choose_from() -> None:
    first = explanation()
    pod, key = Pod("uid-2", "web", "shop", QosClass.BURSTABLE), ContainerKey("uid-2", "c0")
    request = replace(first.decision.request, pod=pod, container=key)
    second = replace(explanation(outcome=Outcome.REFUSED, request=request), container=None)
    assert render_explain(ExplainView((first, second))).splitlines() == [
        "several pods are meant; choose one with --namespace or by its uid:",
        "  default/web/c0: CPUs 2-3, 2 exclusive, in socket #0, memory node 0 (running)",
        "    uid uid-web",
        "  shop/web/c0: refused, holds nothing",
        "    uid uid-2",
    ]


def test_words_that_are_not_one_whole_name_are_shown_as_they_were_read() -> None:
    view = ExplainView((explanation(),), ("static pod kube-system/etcd-n1",))
    assert render_explain(view) == f"read as static pod kube-system/etcd-n1\n\n{EXPECTED}"
    both = replace(view, read_as=("container web of pod shop", "pod web of namespace shop"))
    assert render_explain(both).startswith("read as container web of pod shop and as pod web of namespace shop\n\n")


def other(name: str, before: str | None, after: str, mems: str = "0") -> PinningChange:
    nodes = NodeSet.of([0])
    return PinningChange(
        "default",
        "web",
        name,
        CpuSet.parse(after),
        NodeSet.parse(mems),
        None if before is None else CpuSet.parse(before),
        None if before is None else nodes,
    )


def test_those_with_the_same_change_share_a_line() -> None:
    displaced = (other("a", "1-3", "1"), other("b", "1-3", "1"), other("c", "4-7", "4-5"))
    assert render_displaced(replace(EMPTY, displaced=displaced, displaced_count=40), width=80) == [
        "  - default/web/a, default/web/b: from CPUs 1-3 to CPU 1",
        "  - default/web/c: from CPUs 4-7 to CPUs 4-5",
        "  - and 37 more containers",
    ]


def test_only_what_changed_is_said() -> None:
    displaced = (other("a", "1-3", "1-3", mems="0-1"),)
    assert render_displaced(replace(EMPTY, displaced=displaced), width=80) == [
        "  - default/web/a: from memory node 0 to memory nodes 0-1"
    ]


def test_what_was_before_may_not_be_known() -> None:
    displaced = (other("a", None, "1"),)
    assert render_displaced(replace(EMPTY, displaced=displaced), width=80) == [
        "  - default/web/a: now CPU 1, memory node 0"
    ]


def test_whoever_made_room_is_named_with_both_places() -> None:
    moved = GrantMove(ContainerName("default", "log", "l"), "socket #0", "root", NodeSet.of([0]), NodeSet.parse("0-1"))
    assert render_displaced(replace(EMPTY, moves=(moved,)), width=120) == [
        "  - default/log/l: lifted from socket #0 to root, memory nodes from 0 to 0-1, to make room"
    ]


def test_history_is_dated_and_says_nothing_twice() -> None:
    history = (
        HistoryEntry(1_700_000_000.0, "placed", "placed in root"),
        HistoryEntry(1_700_000_001.0, "lifted", "from a to b"),
    )
    assert render_history(history, width=80) == [
        "  2023-11-14 22:13:20  placed in root",
        "  2023-11-14 22:13:21  lifted: from a to b",
    ]


def test_devices_stand_with_the_place_and_their_choice_apart() -> None:
    chosen = Reason("devices", "gpu0 and gpu1 cost least")
    text = render_explanation(
        replace(
            explanation(reasons=(*decision_record().reasons, chosen)),
            container=container(
                "c0", "exclusive", "2-3", pool="socket #0", devices=("example.com/gpu/gpu0", "example.com/gpu/gpu1")
            ),
        )
    )
    assert "memory node 0, example.com/gpu gpu0-1 (running)" in " ".join(text.split())
    assert "\n\nchoice of devices\n  - gpu0 and gpu1 cost least\n\n" in text
