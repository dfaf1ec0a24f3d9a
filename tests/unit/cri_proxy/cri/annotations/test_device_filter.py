import pytest

from cri_proxy.cri.annotations.device_filter import (
    KINDS,
    LocalityFilter,
    PathPattern,
    SourceKind,
    path_patterns,
    source_kinds,
)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_a_word_everything_counts(kind: SourceKind) -> None:
    assert LocalityFilter().takes(kind, "/dev/x")
    assert not LocalityFilter(sources=frozenset()).takes(kind, "/dev/x")


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (True, "devices mounts pod-resources"),
        ("all", "devices mounts pod-resources"),
        ("enabled", "devices mounts pod-resources"),
        (False, ""),
        ("none", ""),
        ("Disabled", ""),
        ("devs", "devices"),
        ("mounts,devices", "devices mounts"),
        (["pod-resources", "mounts"], "mounts pod-resources"),
        (["all"], "devices mounts pod-resources"),
    ],
)
def test_kinds_of_sources_are_words_or_a_list(value: object, kinds: str) -> None:
    assert " ".join(sorted(source_kinds(value))) == kinds


@pytest.mark.parametrize("value", ["near", "", "mounts,", ["mounts", 3], [], 1, {"mounts": True}, None, "all,mounts"])
def test_other_words_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected true, false|is none of|stand alone"):
        source_kinds(value)


@pytest.mark.parametrize(
    ("allow", "deny", "is_taken"),
    [
        ([], ["/dev"], False),
        ([], ["/de"], False),
        ([], ["/var"], True),
        (["/dev/dri"], ["/"], True),
        (["/dev/nvme"], ["/dev"], False),
        (["/var"], [], True),
        ([], ["/dev/*"], True),
        ([], ["/dev/*/card?"], False),
        (["/dev/**"], ["/**"], True),
    ],
)
def test_what_is_denied_is_left_out_unless_it_is_allowed_too(allow: list[str], deny: list[str], is_taken: bool) -> None:
    patterns = [path_patterns(paths) if paths else () for paths in (allow, deny)]
    assert LocalityFilter(allow=patterns[0], deny=patterns[1]).takes("devices", "/dev/dri/card0") is is_taken


@pytest.mark.parametrize("path", ["example.com/gpu", "podresapi:example.com/gpu"])
@pytest.mark.parametrize(
    ("denied", "is_taken"),
    [("podresapi:example.com/gpu", False), ("podresapi:*", False), ("podresapi:*/nic", True), ("/", True)],
)
def test_a_resource_of_the_kubelet_is_named_like_a_path(path: str, denied: str, is_taken: bool) -> None:
    assert LocalityFilter(deny=path_patterns([denied])).takes("pod-resources", path) is is_taken


def test_the_map_of_nri_plugins_says_whether_its_paths_are_prefixes() -> None:
    assert path_patterns({"type": "glob", "paths": ["/a*"]}) == (PathPattern("/a*", True),)
    assert path_patterns({"type": "prefix", "paths": ["/a*"]}) == (PathPattern("/a*"),)
    assert path_patterns({"paths": ["/a"]}) == (PathPattern("/a"),)
    assert path_patterns("/a, /b?") == (PathPattern("/a"), PathPattern("/b?", True))


@pytest.mark.parametrize(
    "value",
    [
        ["dev"],
        ["/" + "x" * 512],
        ["/" + "*" * 17],
        ["/a"] * 65,
        {"type": "regex", "paths": ["/a"]},
        {"type": "glob"},
        {"paths": ["/a"], "more": 1},
        {"paths": {"a": 1}},
        {"type": ["glob"], "paths": ["/a"]},
        7,
    ],
)
def test_paths_of_another_form_or_beyond_the_bounds_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected a list of paths|no absolute path|more than 64|the type of paths"):
        path_patterns(value)
