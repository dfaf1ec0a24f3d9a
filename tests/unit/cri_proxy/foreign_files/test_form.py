import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.yaml_fields import DocumentError, YamlField

DIALECT = Dialect(max_bytes=1000, max_depth=5, max_nodes=100)


def has_colour(root: YamlField) -> bool:
    return root.is_mapping and "colour" in root.entries("")


FORM = FileForm("a paint file", "colour:", "cri-proxy paint", DIALECT, has_colour)


def problem_of(text: str, form: FileForm = FORM) -> tuple[int, str]:
    with pytest.raises(DocumentError) as caught, form.redacted(text):
        for root in YamlField.documents(text, "f", DIALECT):
            root.mapping(("colour",), "the paint")
        raise DocumentError("f", 7, "'red' is no colour")
    return caught.value.line, caught.value.problem


@pytest.mark.parametrize("text", ["passwd: x", "- secret", "secret", "secret: *secret", "'secret", "\x01"])
def test_nothing_is_repeated_of_a_text_of_which_no_key_is_known(text: str) -> None:
    assert problem_of(text) == (
        1,
        "no key of a paint file is understood, so none of its text is shown: expected colour: "
        "(cri-proxy paint FILE shows what is wrong)",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colour: red", (7, "'red' is no colour")),
        ("shade: red\ncolour: red", (1, "the paint: unknown key 'shade'; known: colour")),
        ("colour: red\n---\nshade: red", (3, "the paint: unknown key 'shade'; known: colour")),
        ("colour: red\nshade: *red", (2, "aliases (*red) are not supported: write the value out")),
        ("", (7, "'red' is no colour")),
    ],
)
def test_a_text_with_a_known_key_is_quoted_also_where_it_is_no_yaml_below(text: str, problem: tuple[int, str]) -> None:
    assert problem_of(text) == problem


def test_a_text_in_another_notation_is_turned_to_yaml_first() -> None:
    form = FileForm("a paint file", "colour:", "cri-proxy paint", DIALECT, has_colour, lambda text: f"colour: {text}")
    assert problem_of("shade", form)[1].startswith("the paint: expected a mapping, got 'shade'")


def test_the_error_that_is_shown_has_none_behind_it() -> None:
    with pytest.raises(DocumentError) as caught, FORM.redacted("secret"):
        raise DocumentError("f", 1, "'secret'")
    assert caught.value.__suppress_context__
