"""Match expressions and the pull between containers (spec section 3)."""

import pytest

from policies.affinity import affinity_scores, matches, split_joint_key, wish
from policies.base import Affinity, CpuKind, Expression, Grant, Request
from tests.unit.policies.build import BURSTABLE, four_nodes, options, request, tree_of, wish_for

TREE = tree_of(four_nodes())
WEB = request(
    "web/nginx", qos=BURSTABLE, namespace="shop", labels=(("tier", "front"), ("a.b/c", "d")), pod_labels=(("app", "w"),)
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "nginx"),
        ("namespace", "shop"),
        ("qosclass", "Burstable"),
        ("id", "web/nginx"),
        ("labels/tier", "front"),
        ("a.b/c", "d"),
        ("io.kubernetes.container.name", "nginx"),
        ("labels/io.kubernetes.container.name", "nginx"),
        ("io.kubernetes.pod.namespace", "shop"),
        ("pod/name", "web"),
        ("pod/uid", "web"),
        ("pod/qosclass", "Burstable"),
        ("pod/labels/app", "w"),
        (":namespace:name", "shop:nginx"),
        (":,-pod/name,name", "web-nginx"),
    ],
)
def test_a_key_finds_its_value(key: str, value: str) -> None:
    assert matches(Expression(key, "Equals", (value,)), WEB)
    assert not matches(Expression(key, "Equals", (value + "x",)), WEB)


@pytest.mark.parametrize(
    "key", ["labels/none", "tags/x", "tags/x.y", "pod/labels/none", "pod/nothing", "nothing", "x.y"]
)
def test_a_key_that_the_container_lacks_does_not_exist(key: str) -> None:
    assert matches(Expression(key, "NotExist"), WEB)
    assert not matches(Expression(key, "Exists"), WEB)


@pytest.mark.parametrize(
    ("operator", "values", "found"),
    [
        ("Equals", ("nginx",), True),
        ("Equals", ("*",), True),
        ("NotEqual", ("nginx",), False),
        ("NotEqual", ("other",), True),
        ("In", ("a", "nginx"), True),
        ("In", ("a", "b"), False),
        ("NotIn", ("a", "b"), True),
        ("NotIn", ("a", "nginx"), False),
        ("Exists", (), True),
        ("NotExist", (), False),
        ("NotExists", (), False),
        ("AlwaysTrue", (), True),
        ("Matches", ("ng*",), True),
        ("Matches", ("N*",), False),
        ("MatchesNot", ("ng*",), False),
        ("MatchesAny", ("x*", "ng???"), True),
        ("MatchesNone", ("x*", "y*"), True),
        ("MatchesNone", ("x*", "ng*"), False),
        ("Sounds", ("nginx",), False),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], found: bool) -> None:
    assert matches(Expression("name", operator, values), WEB) is found


@pytest.mark.parametrize(
    ("operator", "found"), [("In", False), ("NotIn", True), ("Matches", False), ("MatchesNot", True)]
)
def test_negations_hold_for_what_does_not_exist(operator: str, found: bool) -> None:
    assert matches(Expression("labels/none", operator, ("*",)), WEB) is found


@pytest.mark.parametrize(
    ("key", "keys", "separator"),
    [("name", ("name",), ""), (":a:b", ("a", "b"), ":"), (":;=a;b", ("a", "b"), "="), (":a/b:c", ("a/b", "c"), ":")],
)
def test_joint_keys_are_split(key: str, keys: tuple[str, ...], separator: str) -> None:
    assert split_joint_key(key) == (keys, separator)


def test_weights_of_all_matches_are_summed_and_each_is_bounded() -> None:
    subject = request("p/a", affinities=(*wish_for("b", 5000), *wish_for("b", -3)))
    assert wish(subject, request("p/b")) == 997


def test_without_a_scope_only_the_same_pod_counts_and_by_uid() -> None:
    subject = request("p/a", affinities=wish_for("b"))
    assert wish(subject, request("p/b")) == 1
    assert wish(subject, request("q/b")) == 0


def test_a_scope_opens_to_other_pods() -> None:
    scope = Expression("namespace", "Equals", ("shop",))
    subject = request("p/a", affinities=(Affinity(Expression("pod/labels/app", "In", ("w",)), 3, scope),))
    assert wish(subject, WEB) == 3
    assert wish(subject, request("q/b", pod_labels=(("app", "w"),))) == 0


def scores(wanted: Request, *others: Grant, **keys: object) -> dict[str, float]:
    found = affinity_scores(TREE, options(four_nodes(), **keys), wanted, others)  # type: ignore[arg-type]  # options
    return {p.name: s for p, s in zip(TREE.pools, found, strict=True) if s}


def sits(name: str, pool: str, kind: CpuKind = CpuKind.SHARED, wanted: Request | None = None) -> Grant:
    return Grant(wanted or request(name), pool, kind)


def test_a_pull_weakens_by_a_quarter_per_link_and_does_not_reach_siblings() -> None:
    found = scores(request("p/a", affinities=wish_for("b", 16)), sits("p/b", "NUMA node #1"))
    assert found == {"NUMA node #1": 16, "socket #0": 12, "root": 9}


def test_a_pull_from_above_reaches_down() -> None:
    found = scores(request("p/a", affinities=wish_for("b", 4)), sits("p/b", "socket #0"))
    assert found == {"root": 3, "socket #0": 4, "NUMA node #0": 3, "NUMA node #1": 3}


def test_the_wish_of_the_one_that_is_already_there_counts_too() -> None:
    first = request("p/b", affinities=wish_for("a", -2))
    assert scores(request("p/a"), sits("p/b", "NUMA node #1", wanted=first))["NUMA node #1"] == -2


def test_reserved_and_preserved_containers_pull_nowhere() -> None:
    wanted = request("p/a", affinities=wish_for("b"))
    assert scores(wanted, sits("p/b", "root", CpuKind.RESERVED)) == {}
    assert scores(wanted, sits("p/b", "", CpuKind.PRESERVE)) == {}


def test_colocation_pulls_pods_and_namespaces_together() -> None:
    there = sits("p/b", "NUMA node #1")
    assert scores(request("p/a"), there, colocate_pods=True)["NUMA node #1"] == 10
    assert scores(request("p/a"), there, colocate_pods=True, colocate_namespaces=True)["NUMA node #1"] == 20
    assert scores(request("q/a"), there, colocate_pods=True) == {}


def test_colocation_is_skipped_for_containers_with_affinities_of_their_own() -> None:
    wanted = request("p/a", affinities=wish_for("nobody"))
    assert scores(wanted, sits("p/b", "NUMA node #1"), colocate_pods=True) == {}
