import pytest

from policies.base import Expression, Request
from policies.expressions import Containers, expression_text, split_joint_key
from tests.unit.policies.build import BURSTABLE, request

WEB = request(
    "web/nginx",
    qos=BURSTABLE,
    namespace="shop",
    labels=(("a.b/c", "d"), ("tags/x.y", "z"), ("tier", "front")),
    pod_labels=(("app", "w"),),
)


def matches(expression: Expression, container: Request) -> bool:
    found = Containers((container,)).matching(expression)
    assert found in (0, 1)
    return bool(found)


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
        (":labels/none:name", ":nginx"),
        (":,-pod/name,name", "web-nginx"),
    ],
)
def test_a_key_finds_its_value(key: str, value: str) -> None:
    assert matches(Expression(key, "Equals", (value,)), WEB)
    assert not matches(Expression(key, "Equals", (value + "x",)), WEB)


@pytest.mark.parametrize(
    "key", ["labels/none", "tags/x", "tags/x.y", "pod/labels/none", "pod/nothing", "nothing", "tier", "x.y"]
)
def test_a_key_that_the_container_lacks_does_not_exist(key: str) -> None:
    assert matches(Expression(key, "NotExist"), WEB)
    assert not matches(Expression(key, "Exists"), WEB)


def test_a_label_of_the_kubelets_counts_as_it_stands_on_the_container() -> None:
    labelled = request("web/nginx", labels=(("io.kubernetes.pod.name", "other"),))
    assert matches(Expression("io.kubernetes.pod.name", "Equals", ("other",)), labelled)


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
    [
        ("name", ("name",), ""),
        (":a:b", ("a", "b"), ":"),
        (":;=a;b", ("a", "b"), "="),
        (":a/b:c", ("a/b", "c"), ":"),
        (":-a:b", ("-a", "b"), ":"),  # two characters that separate, or none
    ],
)
def test_joint_keys_are_split(key: str, keys: tuple[str, ...], separator: str) -> None:
    assert split_joint_key(key) == (keys, separator)


def test_an_expression_in_words_is_bounded() -> None:
    assert expression_text(Expression("name", "Exists")) == "name Exists"
    many = expression_text(Expression("k" * 500, "In", tuple(map(str, range(99)))))
    assert (len(many) < 200, many.endswith(" and 95 more")) == (True, True)


@pytest.mark.parametrize(("values", "text"), [("abcd", "a, b, c, d"), ("abcde", "a, b, c, d and 1 more")])
def test_four_values_of_an_expression_are_shown(values: str, text: str) -> None:
    assert expression_text(Expression("name", "In", tuple(values))) == f"name In {text}"


SEVERAL = tuple(
    request(f"{pod}/{name}", namespace=namespace, labels=labels)
    for pod, name, namespace, labels in (
        ("web-1", "nginx", "shop", (("tier", "front"),)),
        ("web-1", "log", "shop", ()),
        ("db", "log", "bank", (("tier", ""),)),
        ("web-2", "nginx", "", (("tier", "front*"),)),
    )
)


@pytest.mark.parametrize("key", ["name", "pod/name", "namespace", "labels/tier", ":labels/tier:name", "tags/x"])
@pytest.mark.parametrize(
    "operator", ["Equals", "NotIn", "Exists", "NotExist", "AlwaysTrue", "MatchesAny", "MatchesNot"]
)
@pytest.mark.parametrize(
    "values", [("front",), ("*",), ("web-?", "*ng*"), ("log", "bank"), ("",), ("front:*", "[!a-m]*")]
)
def test_several_containers_satisfy_what_each_of_them_does(key: str, operator: str, values: tuple[str, ...]) -> None:
    expression = Expression(key, operator, values)
    together = Containers(SEVERAL).matching(expression)
    assert [bool(together >> i & 1) for i in range(len(SEVERAL))] == [matches(expression, one) for one in SEVERAL]
    assert together >> len(SEVERAL) == 0


def test_the_containers_of_a_pod_are_found_by_its_uid() -> None:
    assert [Containers(SEVERAL).in_pod(uid) for uid in ("web-1", "web-2", "none")] == [0b11, 0b1000, 0]


def test_of_no_containers_none_satisfies_anything() -> None:
    found = [
        Containers(()).matching(Expression("name", operator, ("*",))) for operator in ("NotIn", "Matches", "Exists")
    ]
    assert found == [0, 0, 0]
