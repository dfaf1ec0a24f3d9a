import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations import (
    DOMAINS,
    TABLE,
    Annotation,
    parse_annotations,
    table_markdown,
    without_effect,
)
from policies.base import Affinity, Expression, Wishes

NAME = "io.kubernetes.container.name"
OURS, NRI, SEED = DOMAINS
EXAMPLES = [(row, example) for row in TABLE for example in row.examples]
SEED_AFFINITY = """
container3:
- match:
    key: io.kubernetes.container.name
    operator: In
    values:
    - container1
"""


@pytest.mark.parametrize(("row", "example"), EXAMPLES, ids=lambda v: v.key if isinstance(v, Annotation) else v)
def test_every_example_of_the_table_is_understood(row: Annotation, example: str) -> None:
    parsed = parse_annotations({f"{OURS}/{row.key}": example}, "c0")
    assert parsed.problems == ()
    assert parsed.origins == ((row.key, f"{OURS}/{row.key}"),)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_every_bad_example_of_the_table_is_reported_and_ignored(row: Annotation) -> None:
    parsed = parse_annotations({f"{SEED}/{row.key}": row.bad_example}, "c0")
    assert (parsed.wishes, parsed.affinities, parsed.uses_hints) == (Wishes(), (), True)
    assert [(p.key, p.value) for p in parsed.problems] == [(f"{SEED}/{row.key}", row.bad_example)]


@pytest.mark.parametrize("row", [r for r in TABLE if not r.by_container_only], ids=lambda row: row.key)
@pytest.mark.parametrize("form", ["{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_key_has_every_form_in_every_domain(row: Annotation, form: str, domain: str) -> None:
    key = form.format(d=domain, k=row.key)
    assert parse_annotations({key: "true"}, "c0").origins == ((row.key, key),)


def test_the_seeds_map_by_container_speaks_of_each_container_alone() -> None:
    annotations = {f"{SEED}/prefer-shared-cpus": '{"container-1": -1, "container-2": true}'}
    levels = [parse_annotations(annotations, f"container-{i}").wishes for i in (1, 2, 3)]
    assert [(w.prefer_shared, w.levels_up) for w in levels] == [(True, 1), (True, 0), (None, 0)]


def test_the_container_form_beats_the_pod_form_even_in_a_later_domain() -> None:
    annotations = {f"{OURS}/prefer-isolated-cpus": "true", f"prefer-isolated-cpus.{SEED}/container.c0": "false"}
    assert parse_annotations(annotations, "c0").wishes.prefer_isolated is False
    assert parse_annotations(annotations, "c1").wishes.prefer_isolated is True


def test_an_entry_of_a_map_is_as_narrow_as_the_container_form() -> None:
    annotations = {f"prefer-shared-cpus.{OURS}/pod": "true", f"{NRI}/prefer-shared-cpus": "{c0: false}"}
    assert parse_annotations(annotations, "c0").wishes.prefer_shared is False


def test_at_the_same_scope_the_order_of_domains_decides() -> None:
    annotations = {
        f"{d}/prefer-reserved-cpus": value for d, value in zip(DOMAINS, ("true", "false", "false"), strict=True)
    }
    assert parse_annotations(annotations, "c0").wishes.prefer_reserved is True
    assert parse_annotations(annotations, "c0", (SEED, OURS)).wishes.prefer_reserved is False


def test_other_domains_are_left_alone() -> None:
    assert parse_annotations({"example.com/prefer-shared-cpus": "garbage"}, "c0").problems == ()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (f"{OURS}/prefer-shared-cpu", "prefer-shared-cpus"),
        (f"prefer-isolated-cpu.{NRI}/pod", "prefer-isolated-cpus"),
        (f"anti-afinity.{SEED}", "anti-affinity"),
        (f"memory-preserve.{OURS}/container.c0", "memory.preserve"),
    ],
)
def test_a_misspelt_key_is_reported_with_what_was_meant(key: str, meant: str) -> None:
    problem = parse_annotations({key: "true"}, "c0").problems[0]
    assert (problem.key, problem.problem.endswith(f"did you mean {meant}?")) == (key, True)


@pytest.mark.parametrize("key", [f"{OURS}/grant", f"{NRI}/memory-type", f"strict.topologyhints.{NRI}/pod", "a.b/c"])
def test_keys_of_the_peers_and_others_are_no_misspellings(key: str) -> None:
    assert parse_annotations({key: "true"}, "c0").problems == ()


@pytest.mark.parametrize(
    ("key", "value", "is_told"),
    [
        (f"{NRI}/memory-type", "dram", True),
        (f"hide-hyperthreads.{OURS}/pod", "true", True),
        (f"unlimited-burstable.{NRI}/container.c0", "package", True),
        (f"unlimited-burstable.{NRI}/container.c1", "package", False),
        (f"{SEED}/cold-start", "c0: {duration: 1m}", True),
        (f"{SEED}/cold-start", "c1: {duration: 1m}", False),
        (f"{SEED}/cold-start", "{", True),
        (f"strict.topologyhints.{NRI}/pod", "true", True),
        (f"{OURS}/grant", "{}", False),
        ("example.com/memory-type", "dram", False),
    ],
)
def test_a_known_key_without_effect_is_told_and_is_no_problem(key: str, value: str, is_told: bool) -> None:
    parsed = parse_annotations({key: value, f"{OURS}/prefer-shared-cpus": "true"}, "c0")
    assert without_effect(parsed.origins) == ((key,) if is_told else ())
    assert (parsed.problems, parsed.wishes.prefer_shared) == ((), True)


def test_a_value_that_is_not_understood_lets_the_next_one_apply() -> None:
    annotations = {f"{OURS}/prefer-shared-cpus": "maybe", f"{SEED}/prefer-shared-cpus": "true"}
    parsed = parse_annotations(annotations, "c0")
    assert parsed.wishes.prefer_shared is True
    assert str(parsed.problems[0]).startswith(f"annotation {OURS}/prefer-shared-cpus: 'maybe': expected true, false")


def test_a_long_bad_value_is_cut_in_the_report() -> None:
    assert len(parse_annotations({f"{OURS}/cpu.preserve": "x" * 70000}, "c0").problems[0].value) == 80


@pytest.mark.parametrize(
    ("prefer", "require", "required"),
    [("/pod", "/pod", True), ("/container.c0", "/pod", False), ("/pod", "/container.c0", True)],
)
def test_between_prefer_and_require_isolated_the_narrower_wins_then_require(
    prefer: str, require: str, required: bool
) -> None:
    annotations = {f"prefer-isolated-cpus.{OURS}{prefer}": "false", f"require-isolated-cpus.{OURS}{require}": "true"}
    wishes = parse_annotations(annotations, "c0").wishes
    assert (wishes.require_isolated, wishes.prefer_isolated) == (required, required)


def test_the_seeds_short_and_full_form_of_affinity_mean_the_same() -> None:
    short = parse_annotations({f"{SEED}/affinity": "container3: [ container1 ]"}, "container3")
    full = parse_annotations({f"{SEED}/affinity": SEED_AFFINITY}, "container3")
    assert short.affinities == full.affinities == (Affinity(Expression(NAME, "In", ("container1",)), 1),)


def test_affinity_and_anti_affinity_add_up() -> None:
    annotations = {f"{SEED}/affinity": "c0: [a]", f"{SEED}/anti-affinity": "c0: [b]\nc1: [a, b]"}
    assert [a.weight for a in parse_annotations(annotations, "c0").affinities] == [1, -1]
    assert [a.match.values for a in parse_annotations(annotations, "c1").affinities] == [("a", "b")]


def test_hints_are_used_unless_told_otherwise() -> None:
    assert parse_annotations({}, "c0").uses_hints
    assert not parse_annotations({f"{OURS}/topologyhints": "{c0: false}"}, "c0").uses_hints


@given(st.dictionaries(st.sampled_from([f"{OURS}/{row.key}" for row in TABLE]), st.text(max_size=40)))
def test_no_annotation_makes_the_parser_raise(annotations: dict[str, str]) -> None:
    parsed = parse_annotations(annotations, "c0")
    assert {p.key for p in parsed.problems} <= set(annotations)


def test_the_documentation_has_a_row_for_every_annotation() -> None:
    assert [line.split("`")[1] for line in table_markdown().splitlines()[2:]] == [f"{OURS}/{r.key}" for r in TABLE]
