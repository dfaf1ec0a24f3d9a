"""Records as others may look at them."""

from dataclasses import replace

from cri_proxy.node.status.explain import by_name, decision_view, differences, is_meant, refused_views, undecided_view
from cri_proxy.state.decisions import DecisionRecord, Granted, Named, Outcome, RankedPool
from policies.base import ContainerKey, CpuKind, Pinning
from policies.topology_aware.score import MEANINGS, WHY_WORSE, Key
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import request
from tests.fakes.rows import make_record
from tests.fakes.views import container

GRANTED = Granted(
    "socket #0", CpuKind.EXCLUSIVE, Pinning(CpuSet.parse("2-3"), NodeSet.of([0])), exclusive=CpuSet.parse("2-3")
)
HELD = container("c0", "exclusive", "2-3", pool="socket #0", exclusive=CpuSet.parse("2-3"))


def ranking(*pools: RankedPool) -> DecisionRecord:
    return replace(make_record(), fields=("fits", "depth", "left"), ranking=pools)


def whys(record: DecisionRecord) -> list[str]:
    return [row.why for row in decision_view(record, None).ranking]


def test_every_field_of_a_key_has_a_meaning_and_a_reason_to_lose() -> None:
    assert tuple(MEANINGS) == tuple(WHY_WORSE) == Key._fields


def test_a_pool_behind_the_chosen_one_lost_by_the_first_field_that_differs() -> None:
    chosen, other = RankedPool("a", (1, 2, 100), "chosen"), RankedPool("b", (1, 1, 900), "not tried")
    assert whys(ranking(chosen, other)) == ["", "is larger"]


def test_a_pool_before_the_chosen_one_could_not_be_had() -> None:
    better = RankedPool("a", (1, 2, 900), "best; root is above it as wished")
    tried = RankedPool("b", (1, 2, 100), "not tried")
    assert whys(ranking(better, tried, RankedPool("root", (1, 0, 100), "chosen"))) == [
        "best; root is above it as wished",
        "ranks higher, but could not give what is asked",
        "",
    ]


def test_of_a_refusal_each_pool_says_itself_why_it_was_no_choice() -> None:
    (row,) = decision_view(ranking(RankedPool("a", (0, 1, 1), "too small: 0m free")), None).ranking
    assert (row.outcome, row.why) == ("too small: 0m free", "")


def test_a_field_of_another_version_is_shown_without_a_meaning() -> None:
    record = replace(make_record(), fields=("charm",), ranking=(RankedPool("a", (1,), "chosen"),))
    (field,) = decision_view(record, None).fields
    assert (field.name, field.meaning) == ("charm", "")


def test_what_is_as_it_was_decided_makes_no_difference() -> None:
    assert differences(GRANTED, HELD) == ()


def test_what_changed_since_is_a_sentence_each() -> None:
    now = replace(HELD, pool="root", exclusive=CpuSet.parse("2"), cpus=CpuSet.parse("2,4-5"), mems=NodeSet.parse("0-1"))
    assert differences(GRANTED, now) == (
        "it is in root; socket #0 was decided",
        "its exclusive CPUs are 2; 2-3 were decided",
        "the shared CPUs that it may use are 4-5; they were none",
        "its memory nodes are 0-1; they were 0",
    )


def test_what_was_restored_has_no_time_of_decision() -> None:
    assert decision_view(make_record(outcome=Outcome.RESTORED), None).decided_at_seconds is None
    assert undecided_view(request("a", 1), HELD).outcome == "restored"


def test_pods_are_named_in_three_ways_and_others_are_not_meant() -> None:
    key, who = ContainerKey("uid-1", "a"), Named("default", "web", "a")
    words = ("web", "default/web", "uid-1", "shop/web", "b")
    assert [is_meant(key, who, pod, "a") for pod in words] == [True, True, True, False, False]


def test_containers_are_listed_by_namespace_pod_and_name() -> None:
    names = [Named("b", "a", "c"), Named("a", "b", "c"), Named("a", "a", "d"), Named("a", "a", "c")]
    keys = {ContainerKey(f"u{i}", who.name): who for i, who in enumerate(names)}
    assert [key.pod_uid for key in by_name(keys)] == ["u3", "u2", "u1", "u0"]


def test_a_late_refusal_is_told_in_a_sentence() -> None:
    (view,) = refused_views([make_record(outcome=Outcome.REFUSED)])
    assert (view.namespace, view.pod, view.name, view.text) == ("default", "web", "c0", "refused: it fits")
