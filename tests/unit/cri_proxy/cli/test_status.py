import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.output import redrawn
from tests.fakes.serving import served


def test_the_tree_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "--admin", f"unix://{tmp_path}/a.sock"]) == 0
    assert "socket #0" in capsys.readouterr().out


def test_json_is_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 0
    assert json.loads(capsys.readouterr().out)["containers"][0]["exclusive"] == "2-3"


def test_without_a_daemon_it_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["status", "--admin", f"{tmp_path}/a.sock"]) == 1
    assert "is the daemon running" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_an_interval_is_a_time(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["status", "--interval", text]) == 2
    assert "expected seconds" in capsys.readouterr().err


def test_containers_are_chosen_and_sorted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "-n", "kube-system", "--sort", "cpus", "--admin", f"{tmp_path}/a.sock"]) == 0
        assert "default/web" not in capsys.readouterr().out
        assert run_command(["status", "--problems", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 0
        assert [each["name"] for each in json.loads(capsys.readouterr().out)["containers"]] == ["c3"]
        assert run_command(["status", "--pool", "socket", "--admin", f"{tmp_path}/a.sock"]) == 2
    assert "there is no pool 'socket'; did you mean socket #" in capsys.readouterr().err


def test_what_is_piped_is_not_wrapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with served(tmp_path / "a.sock"):
        run_command(["status", "--admin", f"{tmp_path}/a.sock"])
        assert "fits: 3 CPUs (4 if sharers move)\n" in capsys.readouterr().out
        monkeypatch.setenv("COLUMNS", "60")
        run_command(["status", "--admin", f"{tmp_path}/a.sock"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_watching_prints_text_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # No daemon is there: it is not asked first.
    assert run_command(["status", "--watch", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 2
    assert "poll with -o json" in capsys.readouterr().err


def test_a_picture_is_drawn_over_the_last_one_without_blanking_it() -> None:
    drawn = redrawn("a\nb", 24)
    assert drawn == "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"
    assert "\x1b[2J" not in drawn


def test_what_does_not_fit_the_window_is_counted() -> None:
    lines = redrawn("\n".join(str(i) for i in range(30)), 10).split("\n")
    assert len(lines) == 10
    assert lines[8].startswith("... 22 more lines")


def test_a_cpu_says_who_is_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["status", "--cpu", "2", "--admin", f"{tmp_path}/a.sock"]) == 0
        assert capsys.readouterr().out.startswith("CPU 2: owned by default/web/c0\n")
        assert run_command(["status", "--cpu", "2", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 0
        assert json.loads(capsys.readouterr().out)["containers"][0]["name"] == "c0"
        assert run_command(["status", "--cpu", "x", "--admin", f"{tmp_path}/a.sock"]) == 2
