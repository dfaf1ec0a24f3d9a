from dataclasses import fields

import pytest

from cri_proxy.cri.annotations.cpu_memory_rows import STRICT_MEMORY_TYPE
from cri_proxy.cri.annotations.forms import Annotation, Finder
from cri_proxy.cri.annotations.read import Parsed
from cri_proxy.cri.annotations.resource_managers import OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.cri.annotations.values import ReadText
from policies.base import Request
from policies.preferences import Preferences
from tests.fakes.annotations import parse_annotations

OURS, NRI, SEED = DOMAINS
EXAMPLES = [(row, example) for row in TABLE for example in row.examples]
# Of nri-plugins 0.12 and cri-resource-manager 0.9; the effective resources are read by ``exact_resources``.
KEYS_OF_THE_PEERS = [
    "prefer-shared-cpus",
    "prefer-isolated-cpus",
    "require-isolated-cpus",
    "prefer-reserved-cpus",
    "prefer-cpu-priority",
    "hide-hyperthreads",
    "unlimited-burstable",
    "pool-choice",
    "memory-type",
    "cold-start",
    "topologyhints",
    "allow.topologyhints",
    "deny.topologyhints",
    "strict.topologyhints",
    "pick-resources-by-hints",
    "scheduling-class",
    "cpu-class",
    "irq-affinity",
    "cpu.preserve",
    "memory.preserve",
    "rdtclass",
    "blockioclass",
    "toptierlimit",
    "affinity",
    "anti-affinity",
    "balloon.balloons",
    "pool.podpools",
]


@pytest.mark.parametrize(("row", "example"), EXAMPLES, ids=lambda v: v.key if isinstance(v, Annotation) else v)
def test_every_example_of_the_table_is_understood(row: Annotation[object], example: str) -> None:
    besides = {f"{OURS}/memory-type": "mixed"} if row is STRICT_MEMORY_TYPE else {}
    assert parse_annotations({**besides, f"{OURS}/{row.key}": example}, "c0").problems == ()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_every_bad_example_of_the_table_is_reported_and_ignored(row: Annotation[object]) -> None:
    parsed = parse_annotations({f"{SEED}/{row.key}": row.bad_example}, "c0")
    assert [(p.key, p.value) for p in parsed.problems] == [(f"{SEED}/{row.key}", row.bad_example)]
    assert parsed == Parsed(problems=parsed.problems)


@pytest.mark.parametrize("row", [r for r in TABLE if r is not STRICT_MEMORY_TYPE], ids=lambda row: row.key)
def test_the_first_example_of_a_row_sets_its_field(row: Annotation[object]) -> None:
    origins = parse_annotations({f"{OURS}/{row.key}": row.examples[0]}, "c0").origins
    assert (row.fields[0], f"{OURS}/{row.key}") in origins


@pytest.mark.parametrize("row", [r for r in TABLE if r.is_preference], ids=lambda row: row.key)
def test_a_row_puts_its_value_into_its_fields_alone(row: Annotation[object]) -> None:
    finders = [Finder({f"{OURS}/{row.key}": ReadText.of(example)}, "c0", DOMAINS) for example in row.examples]
    values = [found.value for finder in finders if (found := finder.find(row))]
    put = [row.put(Preferences(), value) for value in values]
    changed = {f.name for wanted in put for f in fields(Preferences) if getattr(wanted, f.name) != f.default}
    assert changed == {field.partition(".")[0] for field in row.fields}


def test_every_preference_is_shown_under_a_label() -> None:
    shown = {field.partition(".")[0] for row in TABLE if row.label and row.is_preference for field in row.fields}
    assert shown == {f.name for f in fields(Preferences)}


def test_nothing_is_shown_of_preferences_that_say_nothing() -> None:
    assert [row.key for row in TABLE if row.shown(Preferences())] == []


def test_every_preference_can_be_annotated() -> None:
    written = {field.partition(".")[0] for row in TABLE for field in row.fields}
    assert {f.name for f in fields(Preferences)} <= written
    assert written <= {f.name for f in (*fields(Preferences), *fields(Request))}


def test_every_key_of_the_peers_is_known() -> None:
    assert set(KEYS_OF_THE_PEERS) >= OF_PEERS
    assert set(KEYS_OF_THE_PEERS) <= OF_PEERS | {row.key for row in TABLE}


def test_keys_are_there_once() -> None:
    keys = [*OF_PEERS, *(key for row in TABLE for key in row.keys)]
    assert len(keys) == len(set(keys))
