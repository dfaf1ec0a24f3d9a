import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.unix_socket import claim, listen_on, passed_socket, private_umask, socket_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def bound(path: Path) -> socket.socket:
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    other.listen()
    return other


@pytest.mark.parametrize("endpoint", ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"])
def test_an_endpoint_names_its_path(endpoint: str) -> None:
    assert socket_path(endpoint) == Path("/run/x.sock")


@pytest.mark.parametrize("runtime_mode", [0o600, 0o660, 0o666])
def test_the_socket_has_the_mode_of_the_runtimes(tmp_path: Path, runtime_mode: int) -> None:
    with bound(tmp_path / "runtime"):
        (tmp_path / "runtime").chmod(runtime_mode)
        server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime")
        with server:
            assert mode(tmp_path / "relay") == runtime_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_socket_has_the_owner_of_the_runtimes(tmp_path: Path) -> None:
    with bound(tmp_path / "runtime"):
        os.chown(tmp_path / "runtime", 12, 34)
        server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime")
        with server:
            found = (tmp_path / "relay").stat()
            assert (found.st_uid, found.st_gid) == (12, 34)


def test_without_a_runtime_it_is_for_its_owner_only(tmp_path: Path) -> None:
    server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime")
    with server:
        assert mode(tmp_path / "relay") == 0o600


def test_the_umask_is_put_back(tmp_path: Path) -> None:
    before = os.umask(0o022)
    server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime")
    server.close()
    assert os.umask(before) == 0o022


def test_a_stale_socket_is_no_obstacle(tmp_path: Path) -> None:
    bound(tmp_path / "relay").close()
    server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime")
    server.close()


def test_a_socket_that_answers_is_left_alone(tmp_path: Path) -> None:
    with bound(tmp_path / "relay"), pytest.raises(ConfigError, match="another process answers there; stop it"):
        listen_on(tmp_path / "relay", tmp_path / "runtime")


def test_a_socket_that_answers_can_be_taken_over_without_a_gap(tmp_path: Path) -> None:
    with bound(tmp_path / "relay"):
        server, _ = listen_on(tmp_path / "relay", tmp_path / "runtime", take_over=True)
        with server, socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "relay"))
            server.accept()[0].close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "relay").write_text("precious")
    with pytest.raises(ConfigError, match="is not a socket; remove it"):
        listen_on(tmp_path / "relay", tmp_path / "runtime")
    assert (tmp_path / "relay").read_text() == "precious"


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="107 bytes"):
        claim(tmp_path / ("x" * 120))


def test_its_directory_is_made(tmp_path: Path) -> None:
    server, _ = listen_on(tmp_path / "new" / "relay", tmp_path / "runtime")
    server.close()


def test_nothing_else_is_left_in_the_directory(tmp_path: Path) -> None:
    server, published = listen_on(tmp_path / "relay", tmp_path / "runtime")
    server.close()
    assert [path.name for path in tmp_path.iterdir()] == ["relay"]
    published.withdraw()
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_somebody_else_took_over_is_not_removed(tmp_path: Path) -> None:
    first, published = listen_on(tmp_path / "relay", tmp_path / "runtime")
    second, _ = listen_on(tmp_path / "relay", tmp_path / "runtime", take_over=True)
    with first, second:
        published.withdraw()
        assert (tmp_path / "relay").exists()
    published.withdraw()


def test_it_is_seen_when_the_name_leads_elsewhere_or_nowhere(tmp_path: Path) -> None:
    server, published = listen_on(tmp_path / "relay", tmp_path / "runtime")
    assert published.is_ours
    (tmp_path / "relay").rename(tmp_path / "away")
    assert not published.is_ours
    (tmp_path / "relay").touch()
    assert not published.is_ours
    server.close()


def test_withdrawing_twice_is_harmless(tmp_path: Path) -> None:
    server, published = listen_on(tmp_path / "relay", tmp_path / "runtime")
    server.close()
    published.withdraw()
    published.withdraw()


@pytest.mark.parametrize("place", ["file/relay", "file/deeper/relay"])
def test_a_directory_that_cannot_be_had_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="check its directory"):
        listen_on(tmp_path / place, tmp_path / "runtime")


def test_the_passed_socket_of_this_name_is_used_and_no_other(tmp_path: Path) -> None:
    with bound(tmp_path / "other") as other, bound(tmp_path / "relay") as relay:
        for _ in range(2):  # a start may open its relay twice
            found = passed_socket(tmp_path / "relay", [other.fileno(), relay.fileno()])
            assert found is not None
            with found:
                assert (found.getsockname(), found.getblocking()) == (str(tmp_path / "relay"), False)
        assert passed_socket(tmp_path / "third", [other.fileno(), relay.fileno()]) is None


def test_a_passed_socket_that_does_not_listen_is_not_used(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(str(tmp_path / "relay"))
        assert passed_socket(tmp_path / "relay", [datagrams.fileno()]) is None


def test_nobody_else_can_connect_before_the_socket_has_its_mode(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        temporary = claim(tmp_path / "relay")
        with private_umask(), socket.socket(socket.AF_UNIX) as server:
            server.bind(str(temporary))
            assert mode(temporary) == 0o600
    finally:
        os.umask(before)


PROGRAM = """
import os, sys, time
from pathlib import Path
from cri_proxy.unix_socket import listen_on
os.environ["LISTEN_PID"] = str(os.getpid())
server, published = listen_on(Path(sys.argv[1]), Path(sys.argv[2]))
client = __import__("socket").socket(__import__("socket").AF_UNIX)
client.connect(sys.argv[1])
server.accept()[0].close()
server.close()
published.withdraw()
"""


def test_a_socket_that_systemd_passed_is_used_and_outlives_us_with_the_runtimes_mode(tmp_path: Path) -> None:
    with bound(tmp_path / "runtime"), bound(tmp_path / "relay") as passed:
        (tmp_path / "runtime").chmod(0o660)
        # As systemd does it: the descriptor is number 3 of the new process
        command = f'exec "$0" -c "$1" "$2" "$3" 3<&{passed.fileno()}'
        arguments = [sys.executable, PROGRAM, str(tmp_path / "relay"), str(tmp_path / "runtime")]
        environment = {**os.environ, "LISTEN_FDS": "1"}
        subprocess.run(
            ["bash", "-c", command, *arguments], check=True, env=environment, pass_fds=[passed.fileno()], timeout=30
        )
        assert mode(tmp_path / "relay") == 0o660


REFUSING = """
import os, sys
from pathlib import Path
from cri_proxy.errors import ConfigError
from cri_proxy.unix_socket import refuse_passed
os.environ["LISTEN_PID"] = str(os.getpid())
refuse_passed(Path(sys.argv[1] + "-another"))
try:
    refuse_passed(Path(sys.argv[1]))
except ConfigError as error:
    print(error)
"""


def test_a_relay_that_must_bind_its_own_refuses_only_the_socket_that_systemd_passed_for_it(tmp_path: Path) -> None:
    with bound(tmp_path / "relay") as passed:
        command = ["bash", "-c", f'exec "$0" -c "$1" "$2" 3<&{passed.fileno()}', sys.executable, REFUSING]
        environment = {**os.environ, "LISTEN_FDS": "1"}
        found = subprocess.run(
            [*command, str(tmp_path / "relay")],
            env=environment,
            pass_fds=[passed.fileno()],
            capture_output=True,
            timeout=30,
            check=True,
        )
    assert b"systemd opened it (cri-proxy.socket)" in found.stdout
    assert found.stderr == b""
