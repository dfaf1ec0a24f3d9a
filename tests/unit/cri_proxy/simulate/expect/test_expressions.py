import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.simulate.errors import ExpectationError
from cri_proxy.simulate.expect.expressions import MAX_LENGTH, Function, check, evaluate, show

FUNCTIONS: dict[str, Function] = {
    "cpus": lambda name: frozenset({4, 5}) if name == "web/c0" else frozenset[int](),
    "state": lambda name: "running",
}


def truth(text: str) -> bool:
    return evaluate(text, FUNCTIONS).is_true


@pytest.mark.parametrize(
    "text",
    [
        "cpus('web/c0') == {4, 5}",
        "cpus('web/c0') == '4-5'",
        "cpus('other') == {}",
        "not cpus('other')",
        "4 in cpus('web/c0') and 6 not in cpus('web/c0')",
        "{4} < cpus('web/c0') <= {3, 4, 5}",
        "cpus('web/c0') | {6} == '4-6'",
        "cpus('web/c0') & {4, 9} == {4}",
        "cpus('web/c0') - {4} == {5}",
        "cpus('web/c0') ^ {5, 6} == {4, 6}",
        "1 + 2 - 4 == -1",
        "state('web/c0') == 'running' or False",
        "'run' in state('web/c0')",
        "{'a', 'b'} == {'b', 'a'}",
    ],
)
def test_what_is_true_is_found_true(text: str) -> None:
    assert truth(text)
    assert not truth(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "cpus.__class__",
        "cpus('web/c0')[0]",
        "[x for x in {1}]",
        "(lambda: 1)()",
        "f'{1}'",
        "2 ** 99999999",
        "'a' * 9",
        "1 if True else 2",
        "(x := 1)",
        "cpus(name='web/c0')",
        "cpus(*{1})",
        "1.5 == 1.5",
        "b'x' == b'x'",
        "{1: 2}",
        "cpus('web/c0') == ",
        "",
        "a b",
    ],
)
def test_whatever_is_more_than_sets_and_comparisons_is_refused_unread(text: str) -> None:
    assert check(text)
    with pytest.raises(ExpectationError):
        truth(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cpu('web/c0') == {4}", "there is no function cpu; there are cpus, state"),
        ("cpus == {4}", "call it, as in cpus"),
        ("cpus() == {4}", "not what cpus takes"),
        ("cpus('web/c0') < 5", "cannot compare 4-5 with 5"),
        ("cpus('web/c0') + {5}", "cannot combine"),
        ("cpus('web/c0') == '4-'", "is not a number"),
        ("{1, 'a'} == {1}", "a set holds numbers or texts"),
        ("-cpus('web/c0') == {}", "only a number can be negative"),
        ("1 in 2", "cannot compare"),
    ],
)
def test_what_has_no_truth_value_says_why(text: str, problem: str) -> None:
    with pytest.raises(ExpectationError) as caught:
        truth(text)
    assert problem in str(caught.value)


def test_a_false_comparison_shows_both_sides() -> None:
    assert evaluate("cpus('web/c0') == {1, 2, 3}", FUNCTIONS).shown == "left is 4-5, right is 1-3"


def test_length_and_depth_are_bounded() -> None:
    assert "longer" in check("1 == " + "1" * MAX_LENGTH)
    assert "parentheses" in check("(" * 300 + "1" + ")" * 300)
    assert "deep" in check("not " * 50 + "True")


def test_everything_is_shown_as_people_write_it() -> None:
    shown = [show(value) for value in (True, 3, "root", frozenset({0, 1, 5}), frozenset({"b", "a"}), frozenset())]
    assert shown == ["true", "3", "'root'", "0-1,5", "a, b", "nothing"]


@given(st.text(max_size=60))
def test_any_text_is_evaluated_or_refused_with_a_sentence(text: str) -> None:
    try:
        evaluate(text, FUNCTIONS)
    except ExpectationError as error:
        assert str(error)


sets = st.frozensets(st.integers(0, 9)).map(lambda ids: "{" + ", ".join(map(str, ids)) + "}" if ids else "{}")
operators = st.sampled_from(["|", "&", "-", "^"])
comparisons = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@given(sets, operators, sets, comparisons, sets)
def test_sets_behave_as_pythons_sets(a: str, sign: str, b: str, comparison: str, c: str) -> None:
    text = f"{a} {sign} {b} {comparison} {c}"
    assert truth(text) == eval(ast.unparse(ast.parse(text.replace("{}", "frozenset()"))))
