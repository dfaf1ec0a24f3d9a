import argparse
import io
import json
from pathlib import Path

import pytest

from cri_proxy.cli import documents
from cri_proxy.cli.documents import Document, DocumentOption
from cri_proxy.cli.help.parser import CommandParser
from cri_proxy.errors import CommandFailed
from policies.errors import PolicyOptionsError
from sysfs.documents.forms import one_of, truth, whole

SIZE = DocumentOption("size", whole, 1, "how many", "N")
EXACT = DocumentOption("exact", truth, False, "exactly", is_flag=True)
NAMES: DocumentOption[list[str] | None] = DocumentOption(
    "some-names", lambda text: text.split(","), None, "names", "NAME,…"
)
OPTIONS: tuple[DocumentOption[object], ...] = (SIZE, EXACT, NAMES)


def answer(document: Document) -> dict[str, object]:
    """What the document asks for, as its options say; ``fail`` is a decision that raises."""
    fields = document.root.entries("the document")
    if "fail" in fields:
        raise PolicyOptionsError("fail", fields["fail"].text("fail"), "do not")
    return {option.dest: document.option(option) for option in OPTIONS}


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit status and standard output. Zero is a no."""
    command = documents.DocumentCommand(
        OPTIONS, answer, lambda found: f"size {found['size']}", is_no=lambda found: not found["size"]
    )
    parser = CommandParser(prog="it")
    command.register(parser)
    parser.add_argument("-o", dest="output", default="json")
    args = parser.parse_args(words)
    status = command.run(args)
    return status, capsys.readouterr().out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "d.yaml"


def test_a_single_document_is_a_single_object(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("a: 1\n")
    status, out = asked(capsys, str(file))
    assert (status, json.loads(out)) == (0, {"size": 1, "exact": False, "some_names": None})


def test_several_are_an_array_in_which_a_broken_one_has_its_place(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text("a: 1\n---\na: [\n---\nfail: x\n---\noptions: {siz: 2}\n---\n# nothing\n---\na: 2\n---\n")
    status, out = asked(capsys, str(file))
    first, *failed, last = json.loads(out)
    assert (status, first, last) == (1, last, first)
    lines = [a["error"].removeprefix(f"{file}:").partition(": ")[::2] for a in failed]
    assert lines[0][0] in ("3", "4")
    assert "not YAML" in lines[0][1]
    assert lines[1:] == [
        ("5", "fail: cannot use 'x': do not"),
        ("7", "options: unknown key 'siz'; did you mean size?"),
        ("8", "the document is empty: write one, or remove the --- above it"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "%YAML 1.2\n---\na: 1\n",
        "# said before\n%YAML 1.1\n# between\n\n%TAG !x! tag:example.com,2020:\n---\na: 1\n...\n",
        "%YAML 1.1\r\n---\r\na: 1\r\n",
        "---\na: 1\n---\n---\n# no more\n",
        "\ufeff---\na: 1\n...\n---\n",
    ],
)
def test_directives_and_what_ends_a_file_are_no_documents(
    text: str, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(text, encoding="utf-8")
    status, out = asked(capsys, str(file))
    assert (status, json.loads(out)) == (0, {"size": 1, "exact": False, "some_names": None})


def test_a_directive_belongs_to_the_document_below_it(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("%YAML 1.1\n---\nfail: x\n...\n%YAML 1.2\n---\nfail: x\n---\n%a\nfail: x\n---\nfail: x\n")
    status, out = asked(capsys, str(file))
    lines = [a["error"].removeprefix(f"{file}:").partition(":")[0] for a in json.loads(out)]
    assert (status, lines) == (1, ["3", "7", "9", "12"])


def test_a_long_word_is_cut_in_an_error(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(f"? {'x' * 100_000}\n: 1\n? {'x' * 100_000}\n: 2\n---\noptions: {{size: {'9' * 4300}}}\n")
    _, out = asked(capsys, str(file))
    assert [len(a["error"]) < 5000 for a in json.loads(out)] == [True, True]


def test_a_broken_one_alone_is_an_error_and_prints_nothing(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("\nfail: x\n")
    with pytest.raises(CommandFailed, match=r"d\.yaml:2: fail: cannot use 'x': do not"):
        asked(capsys, str(file))
    assert capsys.readouterr().out == ""


def test_a_no_among_good_answers_is_status_one(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("a: 1\n---\noptions: {size: 0}\n")
    status, out = asked(capsys, str(file), "-o", "text")
    assert (status, out) == (1, "size 1\n\nsize 0\n")


def test_the_command_line_beats_the_document_and_that_the_default(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text("options: {size: 7, exact: yes, some-names: [a, b]}\n")
    assert json.loads(asked(capsys, str(file))[1]) == {"size": 7, "exact": True, "some_names": ["a", "b"]}
    given = asked(capsys, str(file), "--size", "0", "--no-exact", "--some-names=c,d")
    assert (given[0], json.loads(given[1])) == (1, {"size": 0, "exact": False, "some_names": ["c", "d"]})


def test_a_null_option_is_as_if_it_were_not_there(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text("options: {size: null}\n---\noptions:\na: 1\n")
    assert [a["size"] for a in json.loads(asked(capsys, str(file))[1])] == [1, 1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("options: {size: -1}", ":1: size: expected a whole number from 0, got '-1'"),
        (f"options: {{size: {'9' * 19}}}", ":1: size: expected a whole number of at most 18 digits, got '999"),
        ("options: [size]", ":1: options: expected a mapping, got a list"),
        ("options: {size: {a: [1]}}", ":1: size: expected a text or number, got a list"),
        ("options: {exact: maybe}", ":1: exact: expected true or false, got 'maybe'"),
        ("# nothing", "no document"),
    ],
)
def test_bad_input_is_named_with_its_place(
    text: str, problem: str, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(text)
    with pytest.raises(CommandFailed, match=str(file)) as caught:
        asked(capsys, str(file))
    assert problem in str(caught.value)


def test_a_wrong_value_on_the_command_line_is_wrong_usage(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        asked(capsys, str(file), "--size", "many")
    assert stop.value.code == 2
    assert "argument --size: expected a whole number from 0, got 'many'" in capsys.readouterr().err


def test_a_dash_is_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", argparse.Namespace(buffer=io.BytesIO(b"a: 1")))
    assert asked(capsys, "-")[0] == 0


def test_a_word_that_is_not_among_the_known_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"expected one of zero, mirror, got 'miror'; did you mean mirror\?"):
        one_of(("zero", "mirror"))("miror")


def test_a_text_can_be_repaired_before_it_is_parsed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text("options: {size 3}\n")
    command = documents.DocumentCommand(OPTIONS, answer, str, repaired=lambda text: text.replace("size 3", "size: 3"))
    parser = CommandParser(prog="it")
    command.register(parser)
    parser.add_argument("-o", dest="output", default="json")
    args = parser.parse_args([str(tmp_path / "it.yaml")])
    assert command.run(args) == 0
    assert json.loads(capsys.readouterr().out)["size"] == 3


def test_a_list_that_is_given_twice_is_wrong_usage(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        asked(capsys, str(file), "--some-names=a", "--some-names=b")
    assert stop.value.code == 2
    assert "argument --some-names: given twice: put all into one, with commas" in capsys.readouterr().err
