from cri_proxy.cri.annotations.cache import AnnotationCache, AnnotationReader
from cri_proxy.cri.annotations.rules import AnnotationRules, Restriction
from cri_proxy.cri.annotations.values import MAX_BYTES

KEY = "cri-proxy.io/prefer-shared-cpus"
FALSE = {KEY: "{c0: false, c1: true}", "a.b/c": "x"}


def reader(cache: AnnotationCache, *restricted: Restriction) -> AnnotationReader:
    return AnnotationReader(AnnotationRules(restricted=restricted), cache)


def test_the_containers_of_a_pod_and_their_retries_parse_its_annotations_once() -> None:
    cache = AnnotationCache()
    wishes = [reader(cache).read("ns", dict(FALSE), name)[1].preferences.prefer_shared for name in ("c0", "c1")]
    assert wishes == [False, True]
    first, again = (reader(cache).read("ns", dict(FALSE), "c0") for _ in range(2))
    assert first[0] is again[0] and first[1] is again[1]


def test_a_changed_text_or_configuration_is_parsed_again() -> None:
    cache = AnnotationCache()
    assert reader(cache).read("ns", FALSE, "c0")[1].preferences.prefer_shared is False
    assert reader(cache).read("ns", {KEY: "true"}, "c0")[1].preferences.prefer_shared is True
    restricted = reader(cache, Restriction(("prefer-shared-cpus",)))
    assert restricted.read("ns", {KEY: "true"}, "c0")[1].preferences.prefer_shared is None


def test_pods_with_the_same_texts_share_what_was_read_but_not_what_their_namespaces_forbid() -> None:
    restricted = reader(AnnotationCache(), Restriction(("prefer-shared-cpus",), ("ns",)))
    (pod, admitted), (same, refused) = (restricted.read(name, dict(FALSE), "c0") for name in ("ns", "other"))
    assert pod is same
    assert (admitted.preferences.prefer_shared, refused.preferences.prefer_shared) == (False, None)


def test_a_change_of_foreign_annotations_is_none() -> None:
    cache = AnnotationCache()
    pods = [reader(cache).read("ns", {**FALSE, "a.b/c": foreign}, "c0")[0] for foreign in ("x", "y")]
    assert pods[0] is pods[1]


def test_nothing_is_kept_where_there_is_nothing_to_read() -> None:
    cache = AnnotationCache()
    for annotations in (FALSE, {"a.b/c": "x"}, {KEY: "x" * MAX_BYTES}):
        reader(cache).read("ns", annotations, "c0")
    assert len(cache) == 1


def test_what_is_kept_is_bounded_and_the_texts_used_longest_ago_go_first() -> None:
    cache = AnnotationCache(max_kept_bytes=2000)
    texts = {name: {KEY: f"{{c0: false, {name}: true}}"} for name in "abcd"}
    pods = [reader(cache).read("ns", texts[name], "c0")[0] for name in "abcad"]
    assert len(cache) == 3
    for i in range(200):  # container names are bounded too
        assert reader(cache).read("ns", texts["a"], f"c{i}")[0] is pods[0]
    assert reader(cache).read("ns", texts["b"], "c0")[0] is not pods[1]
