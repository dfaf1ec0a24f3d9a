import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.values import MAX_BYTES, by_container, listed, parse_text, shared_preference, truth


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        (" False\n", False),
        ("-3", -3),
        ('{"c0": true}', {"c0": True}),
        ("c0: -1\nc1: [a, b]", {"c0": -1, "c1": ["a", "b"]}),
        ("", None),
        ("2001-99-99: 2001-01-01", {"2001-99-99": "2001-01-01"}),
        ("on: .inf", {"on": ".inf"}),
    ],
)
def test_json_and_yaml_are_read_alike(text: str, value: object) -> None:
    assert parse_text(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * (MAX_BYTES + 1), "longer than"),
        ("[" * 40 + "]" * 40, "nested deeper"),
        ("[" * 17 + "]" * 17, "nested deeper"),
        ("{a: " * 17 + "}" * 17, "nested deeper"),
        ('{"a": ' * 17 + "1" + "}" * 17, "nested deeper"),
        ('{"c0": ["\\ud800"]}', "escape"),
        ('"\\0"', "escape"),
        ('{"c0": "\\u0000"}', "escape"),
        ("[" + "a," * 5000 + "]", "more than 512"),
        ("1:" * 100 + "1", "more than 64 digits"),
        ("c0: 0x" + "f" * 100, "more than 64 digits"),
        ('c0: ["\\ud800"]', "escape"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("!!timestamp x", "tags"),
        ("!!python/object/apply:os.getcwd []", "tags"),
        ("a: [", "line"),
        ("\x00", "not YAML"),
    ],
)
def test_text_out_of_bounds_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_text(text)


@pytest.mark.parametrize("text", ["[" * 16 + "]" * 16, "{a: " * 16 + "}" * 16, '{"a": ' * 16 + "1" + "}" * 16])
def test_the_deepest_allowed_nest_is_read(text: str) -> None:
    assert parse_text(text)


@pytest.mark.parametrize(
    "text", ["[" + "[1]," * 4000 + "[1]]", "[" + "a" * 15 + ", a" * 500 + "]"], ids=["JSON", "YAML"]
)
def test_the_longest_allowed_text_is_read_in_bounded_time(text: str) -> None:
    started_seconds = time.process_time()
    parse_text(text)
    assert time.process_time() - started_seconds < 2


def test_a_nest_of_brackets_as_long_as_allowed_is_refused_quickly() -> None:
    started_seconds = time.process_time()
    with pytest.raises(ValueError, match="nested"):
        parse_text("[" * MAX_BYTES)
    assert time.process_time() - started_seconds < 0.5


@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*!|>\"'0be_. \n#?%@`", max_size=40))
def test_no_text_raises_anything_but_value_error(text: str) -> None:
    try:
        parse_text(text)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("value", "preference"),
    [(True, (True, 0)), (False, (False, 0)), (0, (True, 0)), (-2, (True, 2)), ("-2", (True, 2)), ("true", (True, 0))],
)
def test_prefer_shared_takes_booleans_zero_and_negative_levels(value: object, preference: tuple[bool, int]) -> None:
    assert shared_preference(value) == preference


@pytest.mark.parametrize("value", [1, "1", "yes", 1.5, None, [], {}])
def test_other_shared_preferences_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected true, false, 0 or a negative integer"):
        shared_preference(value)


@pytest.mark.parametrize("value", [0, 1, None, "1", [True]])
def test_numbers_are_no_truth_values(value: object) -> None:
    with pytest.raises(ValueError, match="true or false"):
        truth(value)


def test_only_a_map_is_by_container() -> None:
    assert (by_container({"c0": 1}), by_container(["c0"])) == ({"c0": 1}, None)


@pytest.mark.parametrize(("value", "words"), [("a", ("a",)), (" a ,b", ("a", "b")), ([" a", "b "], ("a", "b"))])
def test_a_list_is_a_list_or_words_between_commas(value: object, words: tuple[str, ...]) -> None:
    assert listed(value, "words") == words


@pytest.mark.parametrize("value", ["", "a,", [], [""], ["a", 1], 1, True, None, {"a": 1}])
def test_what_is_no_list_of_words_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected words"):
        listed(value, "words")


def test_a_map_with_a_slash_in_a_key_is_one_value() -> None:
    """No container has such a name, so that a value which is a map itself may have keys like these."""
    assert by_container({"example.com/gpu": 1}) is None
    assert by_container({"c0": 1, "example.com/gpu": {}}) is None
    assert by_container({1: "a"}) == {"1": "a"}
