import json
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "links"
KEP, STORY = str(CONFIGS / "kep-690.txt"), str(CONFIGS / "story.yaml")


def scored(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run_command(["gpu", "score", *words, "-o", "json"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_the_score_is_an_integer_and_exact(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = scored(capsys, KEP, "--request", "2")
    assert found == {
        "set_score": 200,
        "max": 1800,
        "score": 11,
        "exact": 100 / 9,
        "ratio": "1/9",
        "containers": [[0, 3]],
    }


def test_the_node_with_links_wins(capsys: pytest.CaptureFixture[str]) -> None:
    """NVLinks hide PCIe in the score that a node has."""
    linked, not_linked = scored(capsys, STORY, "--request", "2")
    assert (linked["set_score"], not_linked["set_score"]) == (200, 50)
    assert linked["score"] > not_linked["score"]


@pytest.mark.parametrize(("request_", "most"), [("1", 0), ("1,1", 0), ("2", 1800), ("8", 50400), ("2,4", 7 * 1800)])
def test_the_most_is_that_of_all_pairs(capsys: pytest.CaptureFixture[str], request_: str, most: int) -> None:
    (found,) = scored(capsys, KEP, "--request", request_)
    assert found["max"] == most
    if not most:
        assert (found["score"], found["exact"], found["ratio"]) == (0, 0, "0")


def test_eight_gpus_across_sockets_are_0_and_yet_more_than_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [" ".join("X" if i == j else "SYS" for j in range(8)) for i in range(8)]
    (tmp_path / "sys.yaml").write_text(json.dumps({"pcie": rows, "options": {"request": 8}}))
    (found,) = scored(capsys, str(tmp_path / "sys.yaml"))
    assert (found["set_score"], found["score"], found["ratio"]) == (280, 0, "1/180")
    assert found["exact"] == pytest.approx(5 / 9)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--request", "3", "--available", "0,1"], "request: size: 3 requested, 2 available"),
        ([], "request: missing; give --request N"),
    ],
)
def test_what_cannot_be_scored_is_an_error(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    assert run_command(["gpu", "score", KEP, *words, "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert problem in shown.err


@pytest.mark.parametrize("request_", ["0", "2,0", "", "-1", "two", ",".join(["1"] * 65)])
def test_a_request_is_numbers_from_1(request_: str) -> None:
    assert run_command(["gpu", "score", KEP, f"--request={request_}"]) == 2


def test_the_text_has_the_exact_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "score", KEP, "--request", "2"]) == 0
    assert capsys.readouterr().out == "score 11, exactly 11.111111: 200 of 1800 points\n  GPU0, GPU3\n"
