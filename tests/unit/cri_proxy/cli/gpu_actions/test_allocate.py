import io
import json
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cli.gpu_actions.allocate import gpu_numbers
from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "links"
KEP = str(CONFIGS / "kep-690.txt")


def answered(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> list[dict[str, Any]]:
    assert run_command(["gpu", "allocate", *words, "-o", "json"]) == status, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_the_answer_has_devices_and_points(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = answered(capsys, 0, KEP, "--size", "2")
    assert found.pop("elapsed_ms") >= 0
    assert found == {"devices": [0, 3], "score": 200, "total": 800, "optimal": True}


def test_nothing_to_give_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = answered(capsys, 1, KEP, "--size", "4", "--available", "0,1")
    assert found.pop("elapsed_ms") >= 0
    rejected = "size: 4 requested, 2 available; ask for fewer or wait until more are free"
    assert found == {"devices": [], "score": 0, "rejected": rejected}


def test_options_change_what_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    def devices(*words: str) -> object:
        return answered(capsys, 0, KEP, *words)[0]["devices"]

    assert devices("--size", "2", "--available", "0,1,2,6") == [1, 2]
    assert devices("--size", "3", "--required", "6", "--policy", "simple") == [0, 1, 6]
    assert devices("--size", "2", "--policy", "static-dgx1-pascal") == [0, 2]
    assert devices("--size", "1", "--available", "0,3,4,6", "--spare-links") == [6]


def test_exact_looks_at_all_of_the_best_cuts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "four.yaml"
    file.write_text("nvlink: [X 5 9 0, 5 X 0 1, 9 0 X 5, 0 1 5 X]\noptions: {size: 2}\n")
    assert answered(capsys, 0, str(file))[0]["devices"] == [0, 1]
    (exact,) = answered(capsys, 0, str(file), "--exact")
    assert (exact["devices"], exact["score"], exact["total"]) == ([0, 2], 900, 1000)


def test_modes_count_one_kind_of_links_or_both(capsys: pytest.CaptureFixture[str]) -> None:
    story = str(CONFIGS / "story.yaml")
    both = answered(capsys, 0, story, "--size", "2")
    by_word = answered(capsys, 0, story, "--size", "2", "--mode", "matrix")
    assert [found["score"] for found in (*both, *by_word)] == [250, 50, 200, 50]


def test_options_may_stand_in_the_document_and_the_command_line_beats_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "topo.yaml"
    text = json.dumps(
        {"text": Path(KEP).read_text(), "options": {"size": 2, "available": [1, 2, 5], "required": [5], "exact": True}}
    )
    file.write_text(f"{text}\n---\n{text}\n")
    assert [found["devices"] for found in answered(capsys, 0, str(file))] == [[1, 5]] * 2
    assert [found["devices"] for found in answered(capsys, 0, str(file), "--size", "1")] == [[5]] * 2


def test_a_document_that_cannot_be_answered_does_not_stop_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "nvlink: [X 1, 1 X]\n---\nnvlink: [X 1, 2 X]\n---\npcie: [X PIX, PIX X]\noptions: {available: [9]}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    first, second, third = answered(capsys, 1, "-", "--size", "2")
    assert first["devices"] == [0, 1]
    assert second == {"error": "-:3: NV2: GPU1 to GPU0, and NV1 back; expected the same word"}
    assert third == {"error": "-:5: GPU9: available, but not in the matrix, which has 0, 1"}


def test_a_size_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "allocate", KEP]) == 1
    assert "size: missing; give --size N, or options: {size: N}" in capsys.readouterr().err


def test_the_text_shows_the_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "allocate", KEP, "--size", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("score 500: GPU0, GPU2, GPU3\n  GPU0-GPU2  NV1   100\n")
    assert "score of the partition 1200, the best of all partitions" in shown


def test_a_set_that_is_not_proved_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [" ".join(str(abs(i - j)) if i != j else "X" for j in range(24)) for i in range(24)]
    (tmp_path / "many.yaml").write_text(json.dumps({"nvlink": rows}))
    assert answered(capsys, 0, str(tmp_path / "many.yaml"), "--size", "4")[0]["optimal"] is False
    assert run_command(["gpu", "allocate", str(tmp_path / "many.yaml"), "--size", "4"]) == 0
    assert "not proved to be the best of all partitions" in capsys.readouterr().out


def test_a_list_of_numbers_is_read() -> None:
    assert not gpu_numbers("")
    assert sorted(gpu_numbers("3,0-1")) == [0, 1, 3]
    with pytest.raises(ValueError, match="expected numbers of GPUs like 0,1,4-7, got 'GPU0'"):
        gpu_numbers("GPU0")
