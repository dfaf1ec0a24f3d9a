"""YAML with lines and bounds."""

import pytest

from cri_proxy.bounded_yaml import MAX_BYTES, Item, Listing, Mapping, Scalar, parse_tree
from cri_proxy.errors import ConfigError


def test_every_node_knows_its_line() -> None:
    tree = parse_tree("a: 1\nb:\n- x\n", "f")
    b = Item("b", 2, Listing((Scalar("x", 3, 3),), 3))
    assert tree == Mapping((Item("a", 1, Scalar("1", 1, 1)), b), 1)


def test_the_text_of_a_block_begins_on_the_next_line() -> None:
    tree = parse_tree("a: |\n  x\n", "f", first_line=10)
    assert tree == Mapping((Item("a", 10, Scalar("x\n", 10, 11)),), 10)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "null", "---\n"])
def test_an_empty_document_is_nothing(text: str) -> None:
    assert parse_tree(text, "f") is None


def test_keys_are_found_whatever_their_case() -> None:
    tree = parse_tree("Kind: x", "f")
    assert isinstance(tree, Mapping)
    assert tree.get("kind") == Scalar("x", 1, 1)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: &x [1]\nb: *x", 2, "aliases"),
        ("[" * 17, 1, "nested deeper"),
        ("a:\n\t- 1", 2, "not YAML"),
        ("a: 1\n---\nb: 2", 2, "not YAML"),
        ("pin: 1\nPIN: 2", 2, "there already, on line 1"),
        ("? [a]\n: 1", 1, "expected a key"),
        ("a: 1\nb: \x01", 2, r"not YAML: U\+0001 is no character"),
        ("#" * (MAX_BYTES + 1), 0, "larger than"),
    ],
)
def test_what_is_not_taken_is_named_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse_tree(text, "f")
    assert caught.value.line == line


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(ConfigError, match="aliases"):
        parse_tree("\n".join(lines), "f")


def test_a_hundred_thousand_brackets_are_refused_at_the_seventeenth() -> None:
    with pytest.raises(ConfigError, match="nested deeper"):
        parse_tree("[" * 100_000, "f")
