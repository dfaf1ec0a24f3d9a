import pytest

from cri_proxy.bounded_yaml import (
    Dialect,
    Item,
    Listing,
    Mapping,
    Scalar,
    Tree,
    YamlError,
    parse_documents,
    parse_tree,
    plain,
)

STRICT = Dialect(max_bytes=200_000, max_depth=16, max_nodes=1000, has_tags=False, has_unique_keys=True)
TOLERANT = Dialect(max_bytes=200_000, max_depth=16, max_nodes=1000, has_aliases=True)


def read(text: str, first_line: int = 1) -> Tree | None:
    return parse_tree(text, STRICT, first_line)


def values(text: str) -> list[object]:
    return [plain(tree) for tree in parse_documents(text, TOLERANT)]


def test_every_node_knows_its_line() -> None:
    tree = read("a: 1\nb:\n- x\n")
    b = Item("b", 2, Listing((Scalar("x", 3, 3),), 3))
    assert tree == Mapping((Item("a", 1, Scalar("1", 1, 1)), b), 1)


def test_the_text_of_a_block_begins_on_the_next_line() -> None:
    assert read("a: |\n  x\n", first_line=10) == Mapping((Item("a", 10, Scalar("x\n", 10, 11)),), 10)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "null", "---\n"])
def test_an_empty_document_is_nothing(text: str) -> None:
    assert read(text) is None


def test_keys_are_found_whatever_their_case() -> None:
    tree = read("Kind: x")
    assert isinstance(tree, Mapping)
    assert tree.get("kind") == Scalar("x", 1, 1)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: &x [1]\nb: *x", 2, "aliases"),
        ("[" * 17, 1, "nested deeper"),
        ("a:\n\t- 1", 2, "not YAML: a tab where a value begins: YAML indents with spaces"),
        ("a: [1,\n", 1, "not YAML"),
        ("a: 1\n---\nb: 2", 3, "not YAML: expected a single document"),
        ("a: !!str 1", 1, "tags"),
        ("[" + "1," * 1000 + "]", 1, "more than 1000 keys and values"),
        ("a: \ud800", 0, "not YAML"),
        ("pin: 1\nPIN: 2", 2, "already set on line 1"),
        ("? [a]\n: 1", 1, "expected a key"),
        ("a: 1\nb: \x01", 2, r"not YAML: U\+0001 is not allowed"),
        ("#" * 200_001, 0, "larger than 200000 bytes"),
    ],
)
def test_what_is_not_taken_is_named_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(YamlError, match=problem) as caught:
        read(text)
    assert caught.value.line == line


@pytest.mark.parametrize(("dialect", "problem"), [(STRICT, "aliases"), (TOLERANT, "more than 1000 keys and values")])
def test_a_bomb_of_aliases_is_refused_before_it_goes_off(dialect: Dialect, problem: str) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(YamlError, match=problem):
        parse_tree("\n".join(lines), dialect)


def test_a_hundred_thousand_brackets_are_refused_at_the_seventeenth() -> None:
    with pytest.raises(YamlError, match="nested deeper"):
        read("[" * 100_000)


def test_documents_come_one_by_one_with_their_lines_and_without_empty_ones() -> None:
    found = parse_documents("a: 1\n---\n---\n- 2\n--- [", TOLERANT)
    assert [next(found).line, next(found).line] == [1, 4]
    with pytest.raises(YamlError, match="not YAML"):
        next(found)


def test_an_alias_stands_for_what_its_anchor_names() -> None:
    text = "a: &x [1, {b: 2}]\nc: *x\nd: &y 3\ne: *y"
    assert values(text) == [{"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": 3, "e": 3}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("&a [*a]", r"\*a stands inside what it names"),
        ("[*a, &a 1]", r"\*a names nothing before it"),
        ("a: &a 1\n---\nb: *a", r"\*a names nothing before it"),
        ("a: &a [[[[[[[[1]]]]]]]]\nb: [[[[[[[[*a]]]]]]]]", "nested deeper than 16"),
        ("<<: 1", "expected a mapping, or a list of mappings, to merge"),
    ],
)
def test_an_alias_that_cannot_be_meant_is_refused(text: str, problem: str) -> None:
    with pytest.raises(YamlError, match=problem):
        values(text)


def test_a_merge_key_brings_in_what_the_mapping_does_not_set() -> None:
    text = "- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {<<: [*a, *b], z: 3}\n- {<<: *a, '<<': 4}"
    assert values(text) == [[{"x": 1, "y": 1}, {"y": 2, "z": 2}, {"y": 1, "z": 3, "x": 1}, {"x": 1, "y": 1, "<<": 4}]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 0x10, 2.5, null, ~, yes, 'yes', word]", [1, 16, 2.5, None, None, True, "yes", "word"]),
        ("{on: 2024-01-01, 5: .inf}", {"on": "2024-01-01", "5": ".inf"}),
        ("[!!bool maybe, !mine x, !!int x]", ["maybe", "x", "x"]),
        ("{a: 1, a: 2}", {"a": 2}),
    ],
)
def test_plain_values_are_what_json_has_a_form_for(text: str, value: object) -> None:
    assert values(text) == [value]


@pytest.mark.parametrize("text", ["1:" * 100 + "1", "0x" + "f" * 100])
def test_a_number_that_takes_long_to_read_is_refused(text: str) -> None:
    with pytest.raises(YamlError, match="line 2: a number of more than 64 digits"):
        values(f"a:\n- {text}")
