import pytest

from cri_proxy.cri.annotations.forms import Annotation, Finder, cut, is_about, key_in
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import COLD_START, RESOURCE_FILES, TABLE
from cri_proxy.cri.annotations.values import ReadText
from tests.fakes.annotations import parse_annotations

OURS, NRI, SEED = DOMAINS


@pytest.mark.parametrize("row", [r for r in TABLE if not r.by_container_only], ids=lambda row: row.key)
@pytest.mark.parametrize("form", ["{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_key_has_every_form_in_every_domain(row: Annotation[object], form: str, domain: str) -> None:
    key = form.format(d=domain, k=row.key)
    found = Finder({key: ReadText.of(row.examples[0])}, "c0", DOMAINS).find(row)
    assert found is not None
    assert found.full_key == key


def test_the_seeds_map_by_container_speaks_of_each_container_alone() -> None:
    annotations = {f"{SEED}/prefer-shared-cpus": '{"container-1": -1, "container-2": true}'}
    levels = [parse_annotations(annotations, f"container-{i}").preferences for i in (1, 2, 3)]
    assert [(w.prefer_shared, w.levels_up) for w in levels] == [(True, 1), (True, 0), (None, 0)]


def test_the_container_form_beats_the_pod_form_even_in_a_later_domain() -> None:
    annotations = {f"{OURS}/prefer-isolated-cpus": "true", f"prefer-isolated-cpus.{SEED}/container.c0": "false"}
    assert parse_annotations(annotations, "c0").preferences.prefer_isolated is False
    assert parse_annotations(annotations, "c1").preferences.prefer_isolated is True


def test_an_entry_of_a_map_is_as_narrow_as_the_container_form() -> None:
    annotations = {f"prefer-shared-cpus.{OURS}/pod": "true", f"{NRI}/prefer-shared-cpus": "{c0: false}"}
    assert parse_annotations(annotations, "c0").preferences.prefer_shared is False


def test_at_the_same_scope_the_order_of_domains_decides() -> None:
    annotations = {
        f"{d}/prefer-reserved-cpus": value for d, value in zip(DOMAINS, ("true", "false", "false"), strict=True)
    }
    assert parse_annotations(annotations, "c0").preferences.prefer_reserved is True
    assert parse_annotations(annotations, "c0", (SEED, OURS)).preferences.prefer_reserved is False


def test_other_domains_are_left_alone() -> None:
    assert parse_annotations({"example.com/prefer-shared-cpus": "garbage"}, "c0").problems == ()


def test_a_value_that_is_not_understood_lets_the_next_one_apply() -> None:
    annotations = {f"{OURS}/prefer-shared-cpus": "maybe", f"{SEED}/prefer-shared-cpus": "true"}
    parsed = parse_annotations(annotations, "c0")
    assert parsed.preferences.prefer_shared is True
    assert str(parsed.problems[0]).startswith(f"annotation {OURS}/prefer-shared-cpus: 'maybe': expected true, false")


def test_a_long_bad_value_is_cut_in_the_report() -> None:
    assert len(parse_annotations({f"{OURS}/cpu.preserve": "x" * 70000}, "c0").problems[0].value) == 80


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("duration: 60s", 60),
        ("c0: {duration: 60s}", 60),
        ("c0: 60s", 60),
        ("c1: 60s", 0),
        ("duration: {duration: 60s}", 0),
        ('{"duration": "60s"}', 60),
    ],
)
def test_a_value_that_is_a_map_is_told_from_a_map_by_container(value: str, seconds: int) -> None:
    parsed = parse_annotations({f"{SEED}/cold-start": value}, "c0")
    assert (parsed.preferences.cold_start_seconds, parsed.problems) == (seconds, ())
    if seconds and value.startswith("duration"):
        assert (
            parse_annotations({f"{COLD_START.key}.{SEED}/pod": value}, "any").preferences.cold_start_seconds == seconds
        )


@pytest.mark.parametrize(
    ("full_key", "text", "is_so"),
    [
        ("k.d/container.c0", "1", True),
        ("k.d/container.c1", "1", False),
        ("d/k", "{c0: 1}", True),
        ("d/k", "{c1: 1}", False),
        ("d/k", "1", True),
        ("d/k", "{", True),
    ],
)
def test_an_annotation_is_about_a_container_or_the_pod(full_key: str, text: str, is_so: bool) -> None:
    assert is_about(full_key, ReadText.of(text), "c0") is is_so


@pytest.mark.parametrize(
    ("full_key", "key"),
    [("d.io/k", "k"), ("k.d.io", "k"), ("a.k.d.io/pod", "a.k"), ("d.io", ""), ("x.io/k", ""), ("kd.io/pod", "")],
)
def test_the_key_is_what_stands_before_or_behind_the_domain(full_key: str, key: str) -> None:
    assert key_in(full_key, ["d.io"]) == key


def test_a_text_is_cut_to_its_beginning() -> None:
    assert (cut("abc", 3), cut("abcd", 3)) == ("abc", "ab…")


@pytest.mark.parametrize("key", ["resource-files", "tell-resources"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_an_old_name_is_read_as_the_present_one(key: str, value: str) -> None:
    parsed = parse_annotations({f"{OURS}/{key}": value}, "c0")
    assert parsed.preferences.resource_files is (value == "true")
    assert parsed.origins == (("resource_files", f"{OURS}/{key}"),)
    assert parsed.problems == ()


def test_an_old_name_that_contradicts_the_present_one_is_a_problem_that_names_both() -> None:
    parsed = parse_annotations({f"{NRI}/resource-files": "true", f"{OURS}/tell-resources": "false"}, "c0")
    assert parsed.preferences.resource_files is True
    assert [str(problem) for problem in parsed.problems] == [
        f"annotation {OURS}/tell-resources: 'false': without effect: {NRI}/resource-files, the present name of this "
        "annotation, has another value"
    ]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({f"{OURS}/resource-files": "true", f"{OURS}/tell-resources": "true"}, True),
        ({f"{OURS}/resource-files": "true", f"tell-resources.{OURS}/container.c0": "false"}, False),
        ({f"resource-files.{OURS}/container.c0": "true", f"{OURS}/tell-resources": "false"}, True),
    ],
    ids=["agree", "the old one is narrower", "the present one is narrower"],
)
def test_both_names_together_are_read_by_their_scopes(annotations: dict[str, str], expected: bool) -> None:
    texts = {key: ReadText.of(text) for key, text in annotations.items()}
    finder = Finder(texts, "c0", DOMAINS)
    assert finder.value(RESOURCE_FILES) is expected
    assert finder.problems == []
