"""``status`` of other nodes as a person calls it, against daemons behind TLS."""

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.http.tls import TlsFiles, TlsGuard
from tests.fakes.serving import served
from tests.testbed.certificates import self_signed

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The URL of a daemon, and the options with which it answers."""
    directory = tmp_path_factory.mktemp("node")
    made = self_signed(directory)
    (directory / "token").write_text(f"{TOKEN}\n")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    guard = TlsGuard(TlsFiles(made.certificate, made.key, directory / "token"), print)
    with served(directory / "a.sock", address=f"127.0.0.1:{port}", guard=guard):
        trust = ["--ca-file", str(made.certificate), "--token-file", str(directory / "token")]
        yield f"https://localhost:{port}", trust


def test_the_status_of_another_node_is_that_of_its_daemon(
    node: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, trust = node
    assert run_command(["status", "--url", url, *trust]) == 0
    assert "socket #0" in capsys.readouterr().out
    assert run_command(["status", "--url", url, *trust[:2]]) == 1
    assert "asks for a token" in capsys.readouterr().err
    assert run_command(["status", "--url", url.replace("https", "http").replace("localhost", "worker-1")]) == 2
    assert "set httpTLS" in capsys.readouterr().err


def test_many_nodes_are_a_table_with_those_that_are_away(
    node: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, trust = node
    (tmp_path / "nodes").write_text(f"# all of them\nworker-1 {url}\n\nworker-2 https://127.0.0.1:1  # away\n")
    assert run_command(["status", "--nodes", f"{tmp_path}/nodes", *trust]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["NODE", "READY"],
        ["worker-1", "ready"],
        ["worker-2", "unreachable"],
    ]
    assert "Connection refused" in lines[2]
    assert lines[-1].startswith("2 nodes: 1 ready, 1 unreachable")


def test_all_that_are_ready_are_a_success_and_json_is_a_list(
    node: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, trust = node
    monkeypatch.setattr("sys.stdin", io.StringIO(url))
    assert run_command(["status", "--nodes", "-", "-o", "json", *trust]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["state"], row["free_cpus"], row["largest_fit"]) == ("localhost", "ready", 4, 3)


@pytest.mark.parametrize("more", [["--watch"], ["-n", "shop"], ["--problems"]])
def test_what_chooses_containers_does_not_go_with_many_nodes(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["status", "--nodes", "/dev/null", *more]) == 2
    assert "go with --url" in capsys.readouterr().err
