import io
from pathlib import Path

import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.yaml_fields import DocumentError, YamlField, read_bounded

DIALECT = Dialect(max_bytes=1000, max_depth=5, max_nodes=50)


def only(text: str) -> YamlField:
    (document,) = YamlField.documents(text, "f.yaml", DIALECT, 10)
    return document


def test_lines_count_from_the_first_one_of_the_text() -> None:
    assert [item.line for item in only("- 1\n- 2\n").items("it")] == [10, 11]


def test_a_value_says_what_it_is() -> None:
    kinds = [(i.is_scalar, i.is_list, i.is_mapping, i.is_null) for i in only("[1, [], {}, null]").items("it")]
    assert kinds == [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 0, 1)]


def test_what_stands_in_a_value_is_named_with_its_file_and_line() -> None:
    inner = only("a: [{b: 1}]").entries("it")["a"].items("a")[0]
    with pytest.raises(DocumentError, match=r"f\.yaml:10: a: unknown key 'b'; known: c"):
        inner.mapping(("c",), "a")
    with pytest.raises(DocumentError, match=r"f\.yaml:10: not YAML"):
        only("[")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a: 1\n\xff", "f:2: not UTF-8: byte 0xff; save it as UTF-8 text"),
        (b"x" * 11, "larger than 10 bytes; cut it into several files"),
    ],
)
def test_a_file_that_is_no_text_or_too_large_is_refused(data: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(DocumentError, match=problem):
        YamlField.read_text(str(path), 10)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="absent: cannot be read: No such file"):
        YamlField.read_text(str(tmp_path / "absent"), 10)


def test_rows_have_the_lines_of_their_keys_and_keys_that_stand_twice() -> None:
    rows = only("a:\n  1\nb: 2\na: 3\n").rows("it")
    assert [(key, line, value.text("it")) for key, line, value in rows] == [
        ("a", 10, "1"),
        ("b", 12, "2"),
        ("a", 13, "3"),
    ]
    with pytest.raises(DocumentError, match=r"f\.yaml:10: it: expected a mapping, got a list"):
        only("[]").rows("it")


def test_an_error_may_be_about_another_line_of_the_file() -> None:
    assert str(only("a: 1").refuse("no", 77)) == "f.yaml:77: no"


def test_standard_input_that_the_caller_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DocumentError, match="-: standard input is closed: redirect a file to it"):
        YamlField.read_text("-", 10)


def test_no_more_is_read_than_asked_for() -> None:
    file = io.BytesIO(b"x" * (1 << 20))
    assert len(read_bounded(file, 200_000)) == file.tell() == 200_000


def test_a_file_that_holds_one_document_may_be_empty_and_has_no_second() -> None:
    assert YamlField.only("# nothing\n", "f", DIALECT, "a file") is None
    found = YamlField.only("a: 1", "f", DIALECT, "a file")
    assert found is not None
    assert found.is_mapping
    with pytest.raises(DocumentError, match="f:3: another document begins here: a file holds one"):
        YamlField.only("a: 1\n---\nb: 2\n", "f", DIALECT, "a file")
