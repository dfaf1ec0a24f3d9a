import pytest

from cri_proxy.node.status.names import (
    MOST_CANDIDATES,
    NEAR,
    Names,
    Reading,
    candidates,
    in_namespace,
    nearness,
    readings_of,
    resolved,
    short_names,
)
from cri_proxy.steps import at_once
from policies.base import ContainerKey, Pod, QosClass
from policies.container_name import ContainerName

STATIC = "0123456789abcdef0123456789abcde"  # and one more digit: 32 of them, as the kubelet makes a static pod's uid


def named(*full: str) -> Names:
    """These containers, as NAMESPACE/POD/CONTAINER, in pods of uids 'u0', 'u1', ..."""
    pods = dict.fromkeys(name.rpartition("/")[0] for name in full)
    uids = {pod: f"u{number}" for number, pod in enumerate(pods)}
    parts = [(uids[name.rpartition("/")[0]], ContainerName(*name.split("/"))) for name in full]
    return {ContainerKey(uid, name.name): name for uid, name in parts}


def static(*full: str) -> Names:
    """The same, each in a static pod of its own."""
    names = [ContainerName(*name.split("/")) for name in full]
    return {ContainerKey(f"{STATIC}{number:x}", name.name): name for number, name in enumerate(names)}


def found(names: Names, words: str, node: str = "n1", namespace: str = "") -> list[str]:
    keys = resolved(names, in_namespace(readings_of(words), namespace), node).keys
    return [str(names[key]) for key in keys]


SHOP = named("default/web/c0", "default/web/c1", "shop/web/c0", "default/db/c0")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("web", ["default/web/c0", "default/web/c1", "shop/web/c0"]),
        ("web/c1", ["default/web/c1"]),
        ("shop/web", ["shop/web/c0"]),
        ("shop/web/c0", ["shop/web/c0"]),
        ("shop/web/c1", []),
        ("u0", ["default/web/c0", "default/web/c1"]),
        ("u0/c1", ["default/web/c1"]),
        ("default/u0/c1", ["default/web/c1"]),
        ("c0", []),
    ],
)
def test_a_container_is_found_by_pod_namespace_and_its_own_name(words: str, expected: list[str]) -> None:
    assert found(SHOP, words) == expected


@pytest.mark.parametrize("words", ["", "/", "/c0", "web/", "a//c", "a/b/c/d"])
def test_words_of_another_form_have_no_reading(words: str) -> None:
    assert readings_of(words) == ()


def test_a_container_that_is_named_apart_leaves_one_reading_of_two_words() -> None:
    assert readings_of("shop/web", "c0") == (Reading("web", "shop", "c0"),)
    assert readings_of("shop/web/c0", "c0") == (Reading("web", "shop", "c0"),)
    assert readings_of("shop/web/c0", "c1") == ()


def test_two_words_that_mean_two_things_find_both_and_say_so() -> None:
    names = named("default/shop/web", "shop/web/c0")
    both = resolved(names, readings_of("shop/web"), "")
    assert [str(names[key]) for key in both.keys] == ["default/shop/web", "shop/web/c0"]
    assert both.read_as == ("container web of pod shop", "pod web of namespace shop")


def test_a_namespace_leaves_the_readings_within_it() -> None:
    names = named("default/shop/web", "shop/web/c0")
    assert found(names, "shop/web", namespace="shop") == ["shop/web/c0"]
    assert found(names, "shop/web", namespace="default") == ["default/shop/web"]
    assert found(SHOP, "web", namespace="shop") == ["shop/web/c0"]
    assert found(SHOP, "web", namespace="other") == []


KUBE = static("kube-system/kube-apiserver-n1/kube-apiserver", "kube-system/etcd-n1/etcd")


@pytest.mark.parametrize(
    "words",
    ["kube-apiserver", "kube-system/kube-apiserver", "kube-apiserver/kube-apiserver", "kube-apiserver-n1"],
)
@pytest.mark.parametrize("node", ["n1", "", "another-name"])
def test_a_static_pod_is_found_without_the_nodes_name(words: str, node: str) -> None:
    """The node's name is known, or the static pods share it."""
    assert found(KUBE, words, node) == ["kube-system/kube-apiserver-n1/kube-apiserver"]


def test_the_full_name_of_a_static_pod_is_said_where_it_was_short() -> None:
    assert resolved(KUBE, readings_of("etcd"), "n1").read_as == ("static pod kube-system/etcd-n1",)
    assert resolved(KUBE, readings_of("etcd-n1"), "n1").read_as == ()


def test_a_node_name_with_dashes_and_dots_is_one_suffix() -> None:
    names = static("s/a-ip-10-0-0-1.example/c", "s/b-ip-10-0-0-1.example/c")
    assert found(names, "a", "") == ["s/a-ip-10-0-0-1.example/c"]


def test_one_static_pod_alone_does_not_tell_the_nodes_name() -> None:
    names = static("kube-system/kube-apiserver-n1/c")
    assert found(names, "kube-apiserver", "n1") != []
    assert found(names, "kube-apiserver", "") == []


def test_a_suffix_that_other_pods_share_is_part_of_their_names() -> None:
    assert short_names(named("a/web-0/c", "a/db-0/c"), "") == {}


def test_a_whole_name_counts_before_a_short_one() -> None:
    names = {**KUBE, **named("default/etcd/c")}
    assert found(names, "etcd") == ["default/etcd/c"]


def test_a_pod_that_is_called_as_the_node_keeps_its_name() -> None:
    assert short_names(named("a/n1/c", "a/-n1/c"), "n1") == {}


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("kube-apisever", "kube-system/kube-apiserver-n1"),
        ("kube-sytem/kube-apiserver", "kube-system/kube-apiserver-n1"),
        ("KUBE-APISERVER", "kube-system/kube-apiserver-n1"),
        ("etdc-n1/etcd", "kube-system/etcd-n1/etcd"),
        ("etcd-n1/server", "kube-system/etcd-n1/etcd"),
        ("web", "shop/web-5d4f9c7b8-x2x7k"),
        ("web-5d4f9c7b8-aaaaa", "shop/web-5d4f9c7b8-x2x7k"),
    ],
)
def test_the_nearest_name_is_the_first_candidate(words: str, nearest: str) -> None:
    names = {**KUBE, **named("shop/web-5d4f9c7b8-x2x7k/c0", "shop/queue-0/c0")}
    assert at_once(candidates(names, readings_of(words)))[0] == nearest


def test_what_is_far_from_all_has_no_candidates() -> None:
    assert at_once(candidates(SHOP, readings_of("nothing-like-it"))) == ()
    assert at_once(candidates(SHOP, readings_of("web" * 100))) == ()
    assert nearness(Reading("xyz"), ContainerName("default", "web", "c0")) < NEAR


def test_candidates_are_few_and_in_order() -> None:
    names = named(*(f"default/web-{number}/c0" for number in range(40)))
    near = at_once(candidates(names, readings_of("web")))
    assert near == tuple(sorted(near))
    assert len(near) == MOST_CANDIDATES


def test_candidates_are_sought_in_steps() -> None:
    names = named(*(f"default/pod-{number}/c0" for number in range(100)))
    assert sum(1 for _ in candidates(names, readings_of("pad-1"))) == 4


def test_pods_of_one_name_in_two_namespaces_have_workloads_of_their_own() -> None:
    names = named("default/db-0/c", "shop/db-0/c")
    pods = {"u0": Pod("u0", "db-0", "default", QosClass.GUARANTEED, (("apps.kubernetes.io/pod-index", "0"),))}
    meant = resolved(names, readings_of("db"), "", pods)
    assert [str(names[key]) for key in meant.keys] == ["default/db-0/c"]
    assert meant.read_as == ("StatefulSet default/db",)
