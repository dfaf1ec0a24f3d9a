import pytest

from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.pod import parse_pod, select
from cri_proxy.cri.annotations.read import Parsed, read_container
from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri.annotations.rules import DOMAINS, AnnotationRules, Restriction, parse_restriction
from cri_proxy.cri.annotations.table import TABLE

FORMS = ("{d}/{k}", "{k}.{d}", "{k}.{d}/pod", "{k}.{d}/container.c0")
TRUSTED = AnnotationRules(restricted=(Restriction(("cpu.preserve", "hyperthreads"), ("kube-system", "ci-*")),))


def read(annotations: dict[str, str], namespace: str, rules: AnnotationRules = TRUSTED) -> Parsed:
    return read_container(parse_pod(select(annotations, rules.domains), rules.domains), "c0", namespace, rules)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_a_restricted_key_counts_in_no_spelling_scope_or_domain(row: Annotation[object]) -> None:
    rules = AnnotationRules(restricted=(Restriction((row.stands_for,)),))
    for key in row.keys:
        for domain in DOMAINS:
            for form in FORMS[:1] if row.by_container_only else FORMS:
                full_key = form.format(d=domain, k=key)
                parsed = read({full_key: row.examples[0]}, "default", rules)
                assert parsed == Parsed(problems=parsed.problems)
                assert [p.key for p in parsed.problems] == [full_key]


def test_where_its_namespace_is_named_a_key_counts() -> None:
    wish = {"cri-proxy.io/cpu.preserve": "true"}
    assert [read(wish, name).preferences.preserve_cpu for name in ("kube-system", "ci-7", "ci", "default", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_the_problem_names_the_option_and_the_namespaces() -> None:
    nowhere = AnnotationRules(restricted=(Restriction(("cpu.preserve",)),))
    wish = {"cri-proxy.io/cpu.preserve": "true"}
    assert [read(wish, "shop", rules).problems[0].problem for rules in (TRUSTED, nowhere)] == [
        "restrictedAnnotations lets it count in kube-system, ci-* only, not in shop",
        "restrictedAnnotations lets it count in no namespace, not in shop",
    ]


def test_both_words_for_hidden_threads_are_one_wish() -> None:
    assert read({"cri-proxy.io/hyperthreads": "hide"}, "shop").preferences.threads is None
    assert parse_restriction("keys=hide-hyperthreads namespaces=").keys == ("hyperthreads",)


def test_a_former_name_restricts_the_present_one() -> None:
    assert parse_restriction("keys=tell-resources,resource-files namespaces=a").keys == ("resource-files",)


def test_a_wish_for_another_container_is_no_problem_of_this_one() -> None:
    others = {"cpu.preserve.cri-proxy.io/container.c1": "true", "cri-proxy.io/hyperthreads": "{c1: hide}"}
    assert read(others, "shop") == Parsed()


def test_other_keys_count_as_ever() -> None:
    both = {"cri-proxy.io/cpu.preserve": "true", "cri-proxy.io/prefer-shared-cpus": "true"}
    assert read(both, "shop").preferences.prefer_shared is True


def test_of_several_entries_with_a_key_all_must_admit_the_namespace() -> None:
    rules = AnnotationRules(
        restricted=(Restriction(("cpu.preserve",), ("a*",)), Restriction(("cpu.preserve",), ("*b",)))
    )
    wish = {"cri-proxy.io/cpu.preserve": "true"}
    assert [read(wish, name, rules).preferences.preserve_cpu for name in ("ab", "a", "b")] == [True, False, False]


@pytest.mark.parametrize("text", ["keys=cpu.preserve namespaces=", "keys=affinity,notify-exec namespaces=a,b-*"])
def test_an_entry_comes_back_from_its_text(text: str) -> None:
    assert str(parse_restriction(text)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keys=cpu.preserv namespaces=", "did you mean cpu.preserve?"),
        ("keys=cri-proxy.io/cpu.preserve namespaces=", "without a domain|did you mean"),
        ("keys=qqq namespaces=", "annotations.md lists them"),
        ("keys= namespaces=a", "at least one of keys"),
        ("keys=affinity namespaces=Shop", "name of a namespace"),
        ("keys=affinity namespaces=" + "a," * 300, "at most 256"),
        ("affinity", "a mapping of keys and namespaces"),
    ],
)
def test_what_is_no_entry_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_restriction(text)


def test_a_long_list_of_namespaces_is_cut_in_the_problem() -> None:
    rules = AnnotationRules(restricted=(Restriction(("cpu.preserve",), tuple(f"n{i}" for i in range(99))),))
    assert "n7 and 91 more only" in rules.refused_in("shop")["cpu.preserve"]


def test_the_annotation_of_another_allocator_is_restricted_by_its_full_key() -> None:
    entry = parse_restriction(f"keys={RESOURCE_STATUS} namespaces=koord-*")
    refused = AnnotationRules(restricted=(entry,)).refused_in("shop")
    assert "in koord-* only" in refused[RESOURCE_STATUS]


UNNAMED = AnnotationRules(trusted=("kube-system", "infra-*"))
ESCAPE = {"cri-proxy.io/cpu.preserve": "true"}


def test_without_the_operators_word_a_pod_that_would_not_be_pinned_shares_what_no_container_owns() -> None:
    parsed = read(ESCAPE | {"cri-proxy.io/hyperthreads": "hide"}, "shop", UNNAMED)
    asked = parsed.preferences
    assert (asked.preserve_cpu, asked.preserve_memory, asked.prefer_shared, asked.levels_up) == (False, True, True, 4)
    assert (asked.threads, parsed.locality_filter.sources) == (None, frozenset())
    problem = next(each for each in parsed.problems if each.key in ESCAPE)
    assert problem.problem == (
        "it counts in kube-system, infra-* and where restrictedAnnotations names it, not in shop: "
        "the container shares all CPUs that no container owns"
    )


@pytest.mark.parametrize("namespace", ["kube-system", "infra-db"])
def test_in_a_trusted_namespace_it_counts(namespace: str) -> None:
    parsed = read(ESCAPE, namespace, UNNAMED)
    assert (parsed.preferences.preserve_cpu, parsed.problems) == (True, ())


def test_the_operators_word_alone_decides_where_it_names_the_key() -> None:
    rules = AnnotationRules(restricted=(Restriction(("cpu.preserve",), ("shop",)),), trusted=("kube-system",))
    assert [read(ESCAPE, name, rules).preferences.preserve_cpu for name in ("shop", "kube-system")] == [True, False]


def test_without_the_operators_word_only_the_wish_for_reserved_cpus_is_ignored_not_that_against_them() -> None:
    wishes = [read({"cri-proxy.io/prefer-reserved-cpus": wish}, "shop", UNNAMED) for wish in ("true", "false")]
    assert [parsed.preferences.prefer_reserved for parsed in wishes] == [None, False]
    assert [len(parsed.problems) for parsed in wishes] == [1, 0]
    assert "prefer_reserved" not in dict(wishes[0].origins)
