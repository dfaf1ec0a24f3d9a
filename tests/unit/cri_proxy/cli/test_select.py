import io
import json
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[4] / "configs" / "costs"
FIRST, SECOND, GPUS = (str(CONFIGS / f"{name}.yaml") for name in ("first-example", "second-example", "gpus"))
FOO_AND_BAR = ("--request", "example.com/foo=1,example.com/bar=1")
PIPELINE = ("--request", "cpu=1,intel.com/fpga=1,intel.com/qat=1")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run_command(["select", *words, "-o", "json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *words: str) -> str:
    """What standard error says of a text on standard input, without the program's name."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["select", "-", *words, "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.removeprefix("cri-proxy select: ").strip()


def test_the_sum_of_both_directions_is_never_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """10 there and 12 back make 22, but a card that says nothing costs 10."""
    found = answer(capsys, FIRST, *FOO_AND_BAR)
    assert (found["cost"], found["greedy_cost"], found["optimal"], found["method"]) == (10, 10, True, "exact")
    assert found["warnings"][0].startswith("example.com/bar/card1: says nothing about costs")


def test_a_one_way_cost_may_count_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, FIRST, *FOO_AND_BAR, "--missing", "mirror")
    assert (found["cost"], found["warnings"]) == (20, [])


def test_the_sum_of_both_directions_is_what_a_forced_pair_costs(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, FIRST, *FOO_AND_BAR, "--must", "example.com/foo/id0,example.com/bar/card0")
    assert found["cost"] == 22


def test_the_second_example_is_read_with_its_oddities(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, SECOND, *PIPELINE)
    assert found["set"] == ["cpu/cpu1", "intel.com/fpga/fpga1", "intel.com/qat/qat0"]
    assert (found["cost"], found["optimal"]) == (15 + 7 + 12, True)
    assert found["warnings"][0].startswith("intel.com/qat/qat0: says nothing about costs, which counts as 0")
    without = answer(capsys, SECOND, *PIPELINE, "--busy", "intel.com/qat/qat-0")
    assert (without["cost"], without["warnings"]) == (15 + 17 + 12, [])
    both = answer(
        capsys,
        SECOND,
        "--request",
        "intel.com/fpga=1,intel.com/qat=1",
        "--must",
        "intel.com/fpga/fpga-2,intel.com/qat/qat1",
    )
    assert both["cost"] == 16 + 20


def test_terms_add_up_to_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, GPUS)
    assert found["set"] == [
        *(f"cpu/cpu{i}" for i in range(8, 12)),
        *(f"example.com/gpu/gpu{i}" for i in (2, 3)),
        "example.com/nic/nic1",
    ]
    assert sum(term["cost"] for term in found["terms"]) == found["cost"] == 4 + 20 + 80
    assert found["elapsed_ms"] >= 0


@pytest.mark.parametrize("method", ["auto", "greedy", "anneal", "exact"])
def test_every_method_meets_the_request(capsys: pytest.CaptureFixture[str], method: str) -> None:
    found = answer(capsys, GPUS, "--method", method)
    assert found["method"] == ("exact" if method == "auto" else method)
    assert len(found["set"]) == 7
    assert found["cost"] <= found["greedy_cost"]


def test_the_command_line_beats_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, GPUS, "--request", "example.com/gpu=1", "--busy", "example.com/gpu/gpu1-3")
    assert found["set"] == ["example.com/gpu/gpu0"]


def test_spaces_after_commas_are_no_part_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys,
        GPUS,
        "--request",
        "example.com/gpu=2, example.com/nic = 1",
        "--busy",
        "example.com/gpu/gpu1, example.com/gpu/gpu2",
        "--must",
        "example.com/nic/nic0 , example.com/gpu/gpu3",
    )
    assert found["set"] == ["example.com/gpu/gpu0", "example.com/gpu/gpu3", "example.com/nic/nic0"]


def test_several_members_that_say_nothing_are_spoken_of_as_several(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "{costs: {a/x0: {5: [a/x1, a/x2]}}, request: {a: 2}}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (warning,) = answer(capsys, "-")["warnings"]
    assert warning.startswith("a/x1, a/x2: say nothing about costs, which counts as 0")
    assert "of their type do: list their costs" in warning


def test_options_stand_in_the_file_by_their_long_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(
        {
            "costs": {"a/x0": {"10": ["b/y0"]}, "a/x1": [{"3": ["b/y0"]}]},
            "present": ["b/y1"],
            "options": {"request": {"a": 1, "b": 1}, "busy": ["b/y1"], "normalize": "per-type-max", "budget-ms": 5},
        }
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = answer(capsys, "-")
    assert (found["cost"], found["set"]) == (30, ["a/x1", "b/y0"])


def test_several_documents_are_answered_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "{costs: {a/x: {1: [b/y]}}, request: {a: 1}}\n---\n{costs: {a/x: {-1: [b/y]}}, request: {a: 1}}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["select", "-", "-o", "json"]) == 1
    good, bad = json.loads(capsys.readouterr().out)
    assert good["set"] == ["a/x"]
    assert bad == {"error": "-:3: -1: a cost cannot be negative; expected a number from 0"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{costs: {a/x: {1: [b/y]}}, request: {c: 1}}",
            "-:1: c: no instance of this type is present; known types: a, b",
        ),
        ("{costs: {a/x: {1: [b/y]}}, request: {a: 2}}", "-:1: a: 2 requested, 1 free (1 present, 0 busy)"),
        ("{costs: {a/x: {1: [b/y]}}, request: {a: -1}}", "-:1: request: expected a whole number from 0, got '-1'"),
        (
            "{costs: {a/x: {1: [b/y]}}, request: {a: 9999999}}",
            "-:1: a: 9999999 requested, 1 free (1 present, 0 busy)",
        ),
        ("{costs: {a/x: {1: [b/y]}}, request: {}}", "-:1: nothing is requested"),
        (
            "{costs: {a/x: {1: [b/y]}}}",
            "-:1: nothing is requested: give request: {TYPE: COUNT} or --request TYPE=COUNT; known types: a, b",
        ),
        (
            "{costs: {e.com/gpu/x: {1: [cpu/y]}}, request: {gpu: 1}}",
            "-:1: gpu: no instance of this type is present; did you mean e.com/gpu?",
        ),
        ("{costs: {}, request: {a: 1}}", "-:1: a: no instance of this type is present; known types: none"),
        (
            "{costs: {a/x: {1: [b/y]}}, request: {a: 1}, must: [a/x], busy: [a/x]}",
            "-:1: a/x must be in the set, but is busy",
        ),
        ("{costs: {a/x: {1: [b/y]}}, request: {a: 1}, must: [a/x, a/x]}", "-:1: must: a/x: a/x is already named"),
        ("{present: [a/x, a/x], request: {a: 1}}", "-:1: present: a/x: a/x is already named on line 1"),
        (
            "{costs: {a/x: {1: [b/y]}}, requests: {a: 1}}",
            "-:1: the document: unknown key 'requests'; did you mean request?",
        ),
        ("a/x0-1: {1: [b/y]}\na/x1: {2: [b/y]}\n", "-:2: a/x1: has cost 1 on line 1 to b/y and cost 2 here; keep one"),
        (
            "cpu/cpu3: {1: [b/y]}\ncpu/cpu03: {2: [b/y]}\n",
            "-:2: cpu/cpu3: has cost 1 on line 1 to b/y and cost 2 here; keep one",
        ),
        ("{present: [cpu/cpu3, cpu/cpu03], request: {cpu: 1}}", "-:1: present: cpu/cpu03: cpu/cpu3 is already named"),
        ("{costs: {a/x: {010: [b/y]}}, request: {a: 1}}", "-:1: '010': may be meant as an octal number"),
        ("{costs: {a/x: {1: [b/y]}}, request: {a: 01}}", "-:1: request: '01' may be meant as an octal number"),
        ("[a/x]", "-:1: the document: expected a mapping, got a list"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    assert refusal(capsys, monkeypatch, text).startswith(problem)


@pytest.mark.parametrize(
    "words",
    [
        ("--request", "a"),
        ("--request", "a=1,a=2"),
        ("--request", "a=x"),
        ("--busy", "card0"),
        ("--must", "a/x,a/x"),
        ("--missing", "none"),
        ("--method", "best"),
        ("--budget-ms", "-1"),
        ("--picture", "x.svg"),
    ],
)
def test_wrong_usage_has_its_own_status(capsys: pytest.CaptureFixture[str], words: tuple[str, str]) -> None:
    assert run_command(["select", FIRST, *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_busy_instances_that_are_not_present_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, FIRST, "--request", "cpu=1", "--busy", "cpu/cpu0-1,cpu/cpu99")
    assert found["set"] == ["cpu/cpu2"]
    assert found["warnings"] == ["busy, but not present: cpu/cpu99"]


def test_text_for_people_says_what_was_chosen_at_what_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["select", GPUS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "cost 104, proved to be the lowest",
        "  cpu              4  cpu8-11",
        "  example.com/gpu  2  gpu2-3",
        "  example.com/nic  1  nic1",
    ]


def test_the_graph_is_written_for_graphviz(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer(capsys, GPUS, "--picture", str(tmp_path / "p.dot"))
    assert (tmp_path / "p.dot").read_text().startswith("graph costs {")


def test_a_picture_that_cannot_be_drawn_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = refusal(capsys, monkeypatch, "{present: [a/x], request: {a: 1}}", "--picture", "/nowhere/p.dot")
    assert said.endswith("/nowhere/p.dot: the picture cannot be written: No such file or directory")
    two = "{present: [a/x], request: {a: 1}}\n---\n{present: [a/x], request: {a: 1}}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(two.encode())))
    assert run_command(["select", "-", "--picture", str(tmp_path / "p.dot"), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)[1]["error"].endswith(
        "--picture draws one document; leave one in the file"
    )
