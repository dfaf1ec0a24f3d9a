from dataclasses import replace

from cri_proxy.node.status.explain import (
    differences,
    explanation,
    refused_views,
)
from cri_proxy.state.decisions import Granted, Outcome, RankedPool
from policies.base import CpuKind, Pinning
from policies.topology_aware import MEANINGS, WHY_WORSE
from policies.topology_aware.keys.score import Key
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import make_record
from tests.fakes.views import container

GRANTED = Granted(
    "socket #0", CpuKind.EXCLUSIVE, Pinning(CpuSet.parse("2-3"), NodeSet.of([0])), exclusive=CpuSet.parse("2-3")
)
HELD = container("c0", "exclusive", "2-3", pool="socket #0", exclusive=CpuSet.parse("2-3"))


def test_every_field_of_a_key_has_a_meaning_and_a_reason_to_lose() -> None:
    assert tuple(MEANINGS) == tuple(WHY_WORSE) == Key._fields


def test_a_field_of_another_version_is_shown_without_a_meaning() -> None:
    record = replace(make_record(), ranking=(RankedPool("a", (("charm", 1),), "chosen"),))
    (field,) = explanation(record, None).fields
    assert (field.name, field.meaning) == ("charm", "")


def test_what_is_as_it_was_decided_makes_no_difference() -> None:
    assert tuple(differences(GRANTED, HELD)) == ()


def test_what_changed_since_is_a_sentence_each() -> None:
    now = replace(HELD, pool="root", exclusive=CpuSet.parse("2"), cpus=CpuSet.parse("2,4-5"), mems=NodeSet.parse("0-1"))
    assert tuple(differences(GRANTED, now)) == (
        "it is in root; socket #0 was decided",
        "its exclusive CPUs are 2; 2-3 were decided",
        "the shared CPUs that it may use are 4-5; they were none",
        "its memory nodes are 0-1; they were 0",
    )


def test_a_late_refusal_is_told_in_a_sentence() -> None:
    (view,) = refused_views([make_record(outcome=Outcome.REFUSED)])
    assert (view.namespace, view.pod, view.name, view.text) == ("default", "web", "c0", "refused: it fits")
