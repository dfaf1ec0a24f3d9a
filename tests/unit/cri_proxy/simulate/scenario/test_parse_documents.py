import pytest

from cri_proxy.simulate.scenario.parse import documents
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.documents.forms import truth


def only(text: str) -> YamlField:
    (document,) = documents(text, "file.yaml")
    return document


def problem(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        only(text).mapping(("alpha", "beta"), "the thing")
    return str(caught.value)


def test_every_value_knows_its_line() -> None:
    fields = only("alpha: 1\nbeta:\n- 2\n- 3\n").mapping(("alpha", "beta"), "it")
    assert [fields["alpha"].line, *(item.line for item in fields["beta"].items("beta"))] == [1, 3, 4]


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() -> None:
    assert problem("alpha: 1\nbetta: 2") == "file.yaml:2: the thing: unknown key 'betta'; did you mean beta?"
    assert "known: alpha, beta" in problem("zzz: 2")


def test_a_key_that_stands_twice_is_refused() -> None:
    assert problem("alpha: 1\nalpha: 2") == "file.yaml:2: the thing: 'alpha' stands twice"


@pytest.mark.parametrize("text", ["[1]", "word", "3"])
def test_a_mapping_is_expected_where_keys_are_read(text: str) -> None:
    assert "expected a mapping" in problem(text)


def test_texts_are_as_they_are_written() -> None:
    fields = only("{a: 750m, b: '2', c: 2, d: true, e: 0x10}").entries("it")
    assert [part.text("it") for part in fields.values()] == ["750m", "2", "2", "true", "0x10"]


def test_plain_values_are_what_json_has_a_form_for() -> None:
    value = only("{a: [1, 2.5, null, yes], b: {c: 2024-01-01, d: .inf, 5: x}}").plain()
    assert value == {"a": [1, 2.5, None, True], "b": {"c": "2024-01-01", "d": ".inf", "5": "x"}}


def test_merged_keys_count_as_written() -> None:
    first, second = only("- &base {a: 1, b: 2}\n- {<<: *base, b: 3}").items("it")
    assert (first.plain(), second.plain()) == ({"a": 1, "b": 2}, {"a": 1, "b": 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "file.yaml:1: not YAML"),
        ("a: 1\nb: : 2", "file.yaml:2: not YAML"),
        ("&a [*a]", "stands inside what it names"),
        (
            "\n".join(["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]),
            "more than 200000 keys and values",
        ),
        ("\x00", "not YAML"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_ours(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        list(documents(text, "file.yaml"))
    assert expected in str(caught.value)


def test_empty_documents_are_none() -> None:
    assert [d.plain() for d in documents("---\n---\na: 1\n---\n# nothing\n", "file.yaml")] == [{"a": 1}]


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False)])
def test_a_truth_is_read_as_one(text: str, value: bool) -> None:
    assert next(documents(text, "s")).parsed("init", truth) is value


def test_what_is_no_truth_is_refused() -> None:
    with pytest.raises(DocumentError, match="init: expected true or false, got '1'"):
        next(documents("1", "s")).parsed("init", truth)
