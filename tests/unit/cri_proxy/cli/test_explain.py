import json
from pathlib import Path

import pytest

from cri_proxy.cli.explain import unknown_text
from cri_proxy.cli.main import run_command
from tests.fakes.serving import served


@pytest.mark.parametrize("who", ["web", "web/c0", "uid-web/c0", "default/web", "default/web/c0"])
def test_a_pod_or_one_of_its_containers_is_explained(
    who: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", who, "--admin", f"{tmp_path}/a.sock"]) == 0
    assert capsys.readouterr().out.startswith("default/web/c0\n")


def test_json_is_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", "web", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"][0]["outcome"] == "placed"


@pytest.mark.parametrize("argv", [["web/c9"], ["nobody"], ["web", "-n", "kube-system"]])
def test_nothing_known_is_a_clear_no(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", *argv, "--admin", f"{tmp_path}/a.sock"]) == 1
    assert f"nothing is known of {argv[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("who", ["", "/c0", "web/", "a//c", "a/b/c/d"])
def test_who_is_a_pod_and_perhaps_a_container(who: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", who]) == 2
    assert "expected [NAMESPACE/]POD[/CONTAINER]" in capsys.readouterr().err


def test_without_a_daemon_it_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "web", "--admin", f"{tmp_path}/a.sock"]) == 1
    assert "no such socket" in capsys.readouterr().err


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", "wbe/c0", "--admin", f"{tmp_path}/a.sock"]) == 1
        assert "nothing is known of wbe/c0; did you mean default/web/c0?" in capsys.readouterr().err
        assert run_command(["explain", "web/c9", "-o", "json", "--admin", f"{tmp_path}/a.sock"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["decisions"], printed["candidates"]) == ([], ["default/web/c0"])


def test_a_namespace_that_is_wrong_is_answered_with_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", "web", "-n", "shop", "--admin", f"{tmp_path}/a.sock"]) == 1
    assert "nothing is known of web in namespace shop; did you mean default/web?" in capsys.readouterr().err


def test_several_candidates_are_joined() -> None:
    assert unknown_text("we", "", ("a/web", "b/web")) == "nothing is known of we; did you mean a/web or b/web?"


def test_problems_are_listed_with_exit_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        assert run_command(["explain", "--problems", "--admin", f"{tmp_path}/a.sock"]) == 1
        assert "can reach the exclusive CPUs 2-3" in capsys.readouterr().out
        assert run_command(["explain", "--problems", "-n", "kube-system", "--admin", f"{tmp_path}/a.sock"]) == 0
    assert capsys.readouterr().out == "every container is as it asks\n"


def test_problems_are_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path / "a.sock"):
        run_command(["explain", "--problems", "-o", "json", "--admin", f"{tmp_path}/a.sock"])
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["problems"]) == ("c3", ["can reach the exclusive CPUs 2-3"])


@pytest.mark.parametrize("argv", [[], ["web", "--problems"]])
def test_a_name_or_all_problems_are_asked_for(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", *argv]) == 2
    assert "--problems" in capsys.readouterr().err
