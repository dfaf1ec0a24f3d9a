import pytest

from cri_proxy.cri.annotations.affinity import affinities
from policies.base import Affinity, Expression

NAME = "io.kubernetes.container.name"


def test_the_short_form_is_one_match_by_container_name() -> None:
    assert affinities(["c1", "c2"], anti=False) == (Affinity(Expression(NAME, "In", ("c1", "c2")), 1),)


def test_the_full_form_keeps_scope_match_and_weight() -> None:
    entry = {
        "scope": {"key": "pod/namespace", "operator": "Equals", "values": ["prod"]},
        "match": {"key": "labels/app", "operator": "NotIn", "values": ["a", "b"]},
        "weight": 7,
    }
    scope = Expression("pod/namespace", "Equals", ("prod",))
    assert affinities([entry], anti=False) == (Affinity(Expression("labels/app", "NotIn", ("a", "b")), 7, scope),)


def test_key_and_operator_of_a_match_default_to_in_by_container_name() -> None:
    assert affinities([{"match": {"values": ["c1"]}}], anti=False)[0].match == Expression(NAME, "In", ("c1",))


@pytest.mark.parametrize(("written", "weight"), [(None, -1), (1, -1), (-1, -1), (5, -5), (-5, -5), (9999, -1000)])
def test_an_anti_affinity_weighs_minus_its_absolute_value(written: int | None, weight: int) -> None:
    entry: dict[str, object] = {"match": {"values": ["c1"]}}
    assert affinities([entry if written is None else entry | {"weight": written}], anti=True)[0].weight == weight


@pytest.mark.parametrize(("written", "weight"), [(5, 5), (-5, -5), (1001, 1000), (-1001, -1000)])
def test_an_affinity_keeps_its_sign_within_a_thousand(written: int, weight: int) -> None:
    assert affinities([{"match": {"values": ["c1"]}, "weight": written}], anti=False)[0].weight == weight


def test_not_exists_is_another_spelling_of_not_exist() -> None:
    match = {"key": "labels/x", "operator": "NotExists"}
    assert affinities([{"match": match}], anti=False)[0].match.operator == "NotExist"


def test_values_that_yaml_reads_as_numbers_and_booleans_are_text() -> None:
    match = {"key": "labels/x", "values": [1, True]}
    assert affinities([{"match": match}], anti=False)[0].match.values == ("1", "true")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("c1", "a list"),
        ([3], "a map of"),
        ([{}], "needs a 'match'"),
        ([{"match": {"values": ["c1"]}, "wieght": 3}], "no field 'wieght'"),
        ([{"match": {"values": ["c1"], "keys": "x"}}], "no field 'keys'"),
        ([{"match": {"operator": "Near", "values": ["c1"]}}], "no operator 'Near'"),
        ([{"match": {"operator": ["In"], "values": ["c1"]}}], "no operator"),
        ([{"match": {"operator": "Equals", "values": ["a", "b"]}}], "exactly one"),
        ([{"match": {"operator": "In"}}], "at least one"),
        ([{"match": {"operator": "Exists", "values": ["a"]}}], "no values"),
        ([{"match": {"values": [["a"]]}}], "list of words"),
        ([{"match": {"values": [1.1]}}], "put numbers with a point in quotes"),
        (["c"] * 65, "65 affinities in one list; the bound is 64"),
        ([{"match": {"values": ["a"] * 129}, "scope": {"values": ["a"] * 128}}], "257 values in one list .* is 256"),
        (["a" * 513], "513 characters in a key or value"),
        ([{"match": {"key": "k" * 513, "operator": "Exists"}}], "513 characters in a key or value"),
        ([{"match": {"operator": "MatchesAny", "values": ["a*"] * 9}}], "9 patterns in one list .* is 8"),
        (
            [{"match": {"operator": "MatchesNone", "values": ["a*" * 32, "b" * 65]}}],
            "129 characters in patterns",
        ),
        ([{"match": {"key": ":a:b:c", "operator": "Matches", "values": ["a" * 33]}}], "99 characters in patterns"),
        ([{"match": {"key": ":a:b:c:d:e:f:g", "values": ["x"]}}], "7 different keys, .* the bound is 6"),
        ([{"match": {"key": ":,=a,b,c,d,e,f,g", "operator": "Exists"}}], "7 different keys"),
        (
            [{"match": {"key": ":a:b:c:d:e:f:g", "values": ["x"]}, "scope": {"key": "a.b", "values": ["x"]}}, "c"],
            "9 diff",
        ),
        ([{"match": {"values": None}}], "at least one"),
        ([{"match": {"operator": "AlwaysTrue"}, "scope": []}], "a scope is a map of"),
        ([{"match": {"operator": "AlwaysTrue"}, "weight": 1.5}], "weight is an integer"),
        ([{"match": {"key": 3, "values": ["a"]}}], "key of a match"),
        ([{"match": {"values": ["c1"]}, "weight": "heavy"}], "weight is an integer"),
        ([{"match": {"values": ["c1"]}, "weight": True}], "weight is an integer"),
        (["c1", {"scope": {}}], "needs a 'match'"),
    ],
)
def test_a_malformed_list_is_refused_as_a_whole(value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        affinities(value, anti=False)


def test_a_list_at_its_bounds_is_read() -> None:
    one, joint = {"key": "a.b", "operator": "Matches"}, {"key": ":a:b:c:d", "operator": "NotIn", "values": ["x"]}
    everywhere = {"key": "io.kubernetes.pod.name", "operator": "AlwaysTrue"}  # a key that is not looked up
    entries = [{"match": one | {"values": ["a" * 12]}, "scope": everywhere} for _ in range(8)]
    assert len(affinities([*entries, *[{"match": joint}] * 55, "c"], anti=False)) == 64
