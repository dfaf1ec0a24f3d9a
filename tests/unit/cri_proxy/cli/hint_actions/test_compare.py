import csv
import io
import json

import pytest
import yaml

from cri_proxy.cli.hint_actions.compare import columns
from cri_proxy.cli.main import run_command
from policies.hints import POLICIES


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command(["hints", "compare", *words]) == 0
    return capsys.readouterr().out


def test_csv_has_a_row_for_each_ordered_pair(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(compared(capsys, "--format", "csv"))))
    assert (len(rows), tuple(rows[0])) == (784, columns(POLICIES))
    (row,) = [r for r in rows if (r["provider0"], r["provider1"]) == ("11:T", "01:T 10:F")]
    assert [row[f"restricted_{part}"] for part in ("affinity", "preferred", "admit")] == ["01", "F", "no"]
    assert [row[f"proposed-strict_{part}"] for part in ("affinity", "preferred", "admit")] == ["none", "", "no"]


def test_all_formats_have_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(compared(capsys, "--nodes=1", "--format=csv"))))
    assert json.loads(compared(capsys, "--nodes=1", "-o=json")) == rows
    assert yaml.safe_load(compared(capsys, "--nodes=1", "-o=yaml")) == rows
    assert len(compared(capsys, "--nodes=1").splitlines()) == len(rows) + 3
    assert len(compared(capsys, "--nodes=1", "--format=md").splitlines()) == len(rows) + 4


def test_the_table_ends_with_how_many_each_policy_admits(capsys: pytest.CaptureFixture[str]) -> None:
    heading, first, *_, last = compared(capsys).splitlines()
    assert heading.split()[:6] == ["provider", "0", "provider", "1", "none", "best-effort"]
    assert first.split()[:5] == ["01:T", "01:T", "nil", "F", "yes"]
    assert last.startswith("admitted of 784: none 784, best-effort 784, restricted 256, single-numa-node 184, ")


def test_markdown_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    heading, rule, first, *_ = compared(capsys, "--nodes=1", "--format=md").splitlines()
    assert heading.count("|") == rule.count("|") == first.count("|")
    assert first.startswith("| 1:T | 1:T | nil F yes | 1 T yes |")


@pytest.mark.parametrize("words", [["--nodes", "4"], ["--format", "csv", "-o", "json"], ["--format", "html"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["hints", "compare", *words]) == 2
    assert "hints" in capsys.readouterr().err


def test_only_some_policies_fit_into_a_narrow_window(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["hints", "compare", "--nodes", "1", "--policy", "strict-2019, restricted"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["provider", "0", "provider", "1", "strict-2019", "restricted"]
    assert lines[1].split() == ["1:T", "1:T", "1", "T", "yes", "1", "T", "yes"]
    assert (max(map(len, lines)) < 80, lines[-1]) == (True, "admitted of 16: strict-2019 4, restricted 4")


def test_some_policies_as_data_have_their_columns_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["hints", "compare", "--nodes", "1", "--policy", "none", "-o", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)[0]) == list(columns(["none"]))


@pytest.mark.parametrize(("names", "problem"), [("", "expected policies"), ("none,none", "each once"), ("x", "one of")])
def test_policies_that_there_are_not_are_wrong_usage(
    names: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["hints", "compare", "--policy", names]) == 2
    assert problem in capsys.readouterr().err
