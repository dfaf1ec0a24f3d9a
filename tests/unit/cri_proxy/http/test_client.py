import socket
from pathlib import Path

import pytest

from cri_proxy.http.client import DaemonUnreachable, ask
from tests.fakes.serving import served


def test_an_answer_is_plain_data(tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"):
        status = ask(tmp_path / "a.sock", "/api/v1/status")
    assert isinstance(status, dict)
    assert status["node"] == "worker-1"


def test_a_query_is_passed_on(tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"):
        assert ask(tmp_path / "a.sock", "/api/v1/explain", {"pod": "a//b&c"}) == {
            "error": "expected ?pod=[NAMESPACE/]POD[/CONTAINER], with &container=NAME or &namespace=NAME, got 'a//b&c'"
        }


def test_no_socket_and_a_dead_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="is the daemon running"):
        ask(tmp_path / "a.sock", "/")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "a.sock"))
    with pytest.raises(DaemonUnreachable, match="the daemon has stopped"):
        ask(tmp_path / "a.sock", "/")


def test_an_answer_that_is_no_data_is_an_error(tmp_path: Path) -> None:
    with served(tmp_path / "a.sock"), pytest.raises(DaemonUnreachable, match="answered 404"):
        ask(tmp_path / "a.sock", "/nowhere")


def test_a_daemon_that_hangs_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "a.sock"))
        silent.listen()
        with pytest.raises(DaemonUnreachable, match="does not answer"):
            ask(tmp_path / "a.sock", "/", seconds=0.05)
