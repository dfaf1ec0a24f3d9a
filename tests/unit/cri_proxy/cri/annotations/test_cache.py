from cri_proxy.cri.annotations.cache import AnnotationCache, AnnotationReader
from cri_proxy.cri.annotations.rules import AnnotationRules, Restriction
from cri_proxy.cri.annotations.values import MAX_BYTES

KEY = "cri-proxy.io/prefer-shared-cpus"
FALSE = {KEY: "{c0: false, c1: true}", "a.b/c": "x"}


def reader(cache: AnnotationCache, *restricted: Restriction) -> AnnotationReader:
    return AnnotationReader(AnnotationRules(restricted=restricted), cache)


def test_the_containers_of_a_pod_and_their_retries_parse_its_annotations_once() -> None:
    cache = AnnotationCache()
    wishes = [reader(cache).read("s", "ns", dict(FALSE), name)[1].preferences.prefer_shared for name in ("c0", "c1")]
    assert wishes == [False, True]
    first, again = (reader(cache).read("s", "ns", dict(FALSE), "c0") for _ in range(2))
    assert first[0] is again[0] and first[1] is again[1]


def test_a_changed_text_or_configuration_is_parsed_again() -> None:
    cache = AnnotationCache()
    assert reader(cache).read("s", "ns", FALSE, "c0")[1].preferences.prefer_shared is False
    assert reader(cache).read("s", "ns", {KEY: "true"}, "c0")[1].preferences.prefer_shared is True
    restricted = reader(cache, Restriction(("prefer-shared-cpus",)))
    assert restricted.read("s", "ns", {KEY: "true"}, "c0")[1].preferences.prefer_shared is None
    assert len(cache) == 1


def test_a_change_of_foreign_annotations_is_none() -> None:
    cache = AnnotationCache()
    pods = [reader(cache).read("s", "ns", {**FALSE, "a.b/c": foreign}, "c0")[0] for foreign in ("x", "y")]
    assert pods[0] is pods[1]


def test_nothing_is_kept_of_a_sandbox_that_is_gone_or_has_nothing_to_read_or_no_id() -> None:
    cache = AnnotationCache()
    for sandbox, annotations in (
        ("s", FALSE),
        ("plain", {"a.b/c": "x"}),
        ("", FALSE),
        ("long", {KEY: "x" * MAX_BYTES}),
    ):
        reader(cache).read(sandbox, "ns", annotations, "c0")
    assert len(cache) == 1
    cache.forget("s")
    cache.forget("s")
    assert len(cache) == 0


def test_what_is_kept_is_bounded_and_the_pod_used_longest_ago_goes_first() -> None:
    cache = AnnotationCache(max_kept_bytes=2000)
    pods = [reader(cache).read(sandbox, "ns", FALSE, "c0")[0] for sandbox in ("a", "b", "c", "a", "d")]
    assert len(cache) == 3
    for i in range(200):  # container names are bounded too
        assert reader(cache).read("a", "ns", FALSE, f"c{i}")[0] is pods[0]
    assert reader(cache).read("b", "ns", FALSE, "c0")[0] is not pods[1]
