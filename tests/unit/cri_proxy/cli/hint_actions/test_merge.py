import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from policies.hints import POLICIES

SPLIT = """\
nodes: 2
providers:
- gpu: [{nodes: [0, 1], preferred: true}]
- cpu: [{nodes: [0], preferred: true}, {nodes: [1], preferred: true}]
- null
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hints.yaml"
    path.write_text(SPLIT)
    return path


def merged(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = run_command(["hints", "merge", *words])
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def test_the_answer_has_affinity_preferred_and_admit_and_what_it_rests_on(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    status, out, _ = merged(capsys, str(file), "-o", "json")
    found = json.loads(out)
    assert (status, found.pop("elapsed_ms") >= 0) == (0, True)
    assert found == {
        "affinity": [0],
        "preferred": False,
        "admit": True,
        "policy": "best-effort",
        "rests_on": [
            {"provider": 0, "resource": "gpu", "nodes": [0, 1], "preferred": True},
            {"provider": 1, "resource": "cpu", "nodes": [0], "preferred": True},
            {"provider": 2, "resource": None, "nodes": None, "preferred": True},
        ],
    }


def test_a_long_or_hostile_resource_breaks_no_column(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    hints = [{"nodes": [0], "preferred": True}]
    file.write_text(json.dumps({"nodes": 2, "providers": [{"x" * 300: hints, "cpu\x1b[2J\u202e\n": hints}]}))
    lines = merged(capsys, str(file))[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].endswith("x  nodes {0}, preferred")
    assert lines[-1].split() == ["cpu\\x1b[2J\\u202e\\n", "nodes", "{0},", "preferred"]


def test_a_refusal_is_a_no(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, _ = merged(capsys, str(file), "--policy", "restricted")
    assert status == 1
    assert out.splitlines() == [
        "restricted: refused: no set of nodes is preferred for every resource",
        "nodes {0}, not preferred",
        "  gpu         nodes {0-1}, preferred",
        "  cpu         nodes {0}, preferred",
        "  provider 2  any node, preferred",
    ]


def test_a_policy_without_a_hint_has_no_affinity(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, _ = merged(capsys, str(file), "--policy", "proposed-strict", "-o", "json")
    assert (status, json.loads(out)["affinity"], json.loads(out)["admit"]) == (1, None, False)
    refused = "proposed-strict: refused: no set of nodes is preferred for every resource\n"
    assert merged(capsys, str(file), "--policy=proposed-strict")[1] == refused
    assert merged(capsys, str(file), "--policy=none")[1] == "none: admitted\nno affinity, not preferred\n"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_that_can_refuse_says_why(policy: str, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(
        "{nodes: 2, providers: [{a: [{nodes: [0], preferred: false}], b: [], c: [{nodes: [1], preferred: true}]}]}"
    )
    status, out, _ = merged(capsys, str(file), "--policy", policy)
    assert out.startswith(f"{policy}: refused: " if status else f"{policy}: admitted\n")
    assert (status == 0) is (policy in ("none", "best-effort", "best-effort-2019"))


def test_the_empty_set_is_an_affinity_of_2019(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(
        "{nodes: 2, providers: [{a: [{nodes: [0], preferred: true}]}, {b: [{nodes: [1], preferred: true}]}]}"
    )
    assert json.loads(merged(capsys, str(file), "--policy=strict-2019", "-o=json")[1])["affinity"] == []


def test_hints_without_a_common_node_are_named_as_the_reason(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    reason = "  no hints of all resources have a node in common"
    file.write_text(
        "{nodes: 2, providers: [{a: [{nodes: [0], preferred: true}]}, {b: [{nodes: [1], preferred: false}]}]}"
    )
    assert merged(capsys, str(file))[1].splitlines() == ["best-effort: admitted", "nodes {0-1}, not preferred", reason]
    assert merged(capsys, str(file), "--policy=best-effort-2019")[1].splitlines()[1:] == [
        "no affinity, not preferred",
        reason,
    ]
    assert reason not in merged(capsys, str(file), "--policy=single-numa-node")[1]
    file.write_text("{nodes: 2, providers: []}")
    assert merged(capsys, str(file))[1].splitlines() == ["best-effort: admitted", "nodes {0-1}, preferred"]


def test_several_documents_have_options_of_their_own_and_a_broken_one_its_place(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text(
        f"{SPLIT}options: {{policy: restricted}}\n---\n{SPLIT}options: {{policy: strictest}}\n---\n{SPLIT}"
        f"options: {{prefer-closest-numa-nodes: true}}\n---\n{SPLIT}options: {{max-allowable-numa-nodes: 4}}\n"
    )
    status, out, _ = merged(capsys, str(file), "-o", "json")
    first, *failed = json.loads(out)
    assert (status, first["policy"], first["admit"]) == (1, "restricted", False)
    said = [answer["error"].removeprefix(f"{file}:") for answer in failed]
    assert said[0].startswith("13: policy: expected one of none, best-effort,")
    assert said[1:] == [
        "15: prefer-closest-numa-nodes: cannot use 'true': the distances between nodes are not known",
        "27: max-allowable-numa-nodes: expected a number from 8, got '4'",
    ]


def test_closer_nodes_go_first_where_asked(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(
        "{nodes: 3, distances: [[10, 30, 12], [30, 10, 30], [12, 30, 10]],"
        " providers: [{a: [{nodes: [0, 1], preferred: true}, {nodes: [0, 2], preferred: true}]}]}"
    )
    assert json.loads(merged(capsys, str(file), "-o=json")[1])["affinity"] == [0, 1]
    found = json.loads(merged(capsys, str(file), "--prefer-closest-numa-nodes", "-o=json")[1])
    assert found["affinity"] == [0, 2]


def test_an_unknown_policy_on_the_command_line_is_wrong_usage(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, _, err = merged(capsys, str(file), "--policy", "strict")
    assert status == 2
    assert "argument --policy: expected one of none, best-effort, restricted" in err


def test_a_limit_of_nodes_below_the_kubelets_is_wrong_usage(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(SPLIT)
    status, out, err = merged(capsys, str(file), "--max-allowable-numa-nodes=4")
    assert (status, out) == (2, "")
    assert "--max-allowable-numa-nodes: expected a number from 8, got '4'" in err
