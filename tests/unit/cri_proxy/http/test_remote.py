"""Daemons of other nodes, asked over real sockets: who is trusted, what is sent, and how long is waited."""

import http.client
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cri_proxy.errors import CommandFailed
from cri_proxy.http.client import DaemonUnreachable
from cri_proxy.http.remote import DaemonUrl, RemoteDaemons, ask_all, read_url
from cri_proxy.http.tls import TlsFiles, TlsGuard
from tests.fakes.http import free_address
from tests.fakes.serving import served
from tests.testbed.certificates import Certificate, self_signed

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@contextmanager
def other_node(directory: Path, made: Certificate, host: str = "127.0.0.1") -> Iterator[str]:
    """A daemon behind TLS and a token; its certificate names localhost and 127.0.0.1."""
    (directory / "tokens").write_text(f"{TOKEN}\n")
    guard = TlsGuard(TlsFiles(made.certificate, made.key, directory / "tokens"), print)
    with socket.create_server((host, 0)) as found:
        port = found.getsockname()[1]
    with served(directory / "a.sock", address=f"{host}:{port}", guard=guard):
        yield f"https://{host}:{port}"


def remote(directory: Path, made: Certificate | None, token: str = TOKEN, seconds: float = 10) -> RemoteDaemons:
    (directory / "token").write_text(f"{token}\n")
    ca_file = made.certificate if made is not None else None
    return RemoteDaemons(ca_file=ca_file, token_file=directory / "token" if token else None, seconds=seconds)


def test_a_daemon_that_is_trusted_answers_who_has_a_token(tmp_path: Path, made: Certificate) -> None:
    with other_node(tmp_path, made) as url:
        status = remote(tmp_path, made).ask(read_url(url), "/api/v1/status")
        assert isinstance(status, dict)
        assert status["node"] == "worker-1"
        with pytest.raises(DaemonUnreachable, match="does not accept this token"):
            remote(tmp_path, made, "f" * 16).ask(read_url(url), "/api/v1/status")
        with pytest.raises(DaemonUnreachable, match="asks for a token: --token-file names it"):
            remote(tmp_path, made, "").ask(read_url(url), "/api/v1/status")


def test_a_daemon_whose_authority_or_name_is_not_known_is_sent_nothing(tmp_path: Path, made: Certificate) -> None:
    with other_node(tmp_path, made) as url, pytest.raises(DaemonUnreachable, match=r"is not trusted: .*--ca-file"):
        remote(tmp_path, None).ask(read_url(url), "/")
    with (
        other_node(tmp_path, made, "127.0.0.2") as url,
        pytest.raises(DaemonUnreachable, match=r"not trusted: .*; ask by a name or"),
    ):
        remote(tmp_path, made).ask(read_url(url), "/")


def test_plain_http_on_loopback_gets_no_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard: list[bytes] = []

        def answer() -> None:
            client, _ = listener.accept()
            heard.append(client.recv(4096))
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        url = read_url(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert remote(tmp_path, None).ask(url, "/api/v1/status") == {}
        thread.join()
    assert heard[0].startswith(b"GET /api/v1/status HTTP/1.1")
    assert TOKEN.encode() not in heard[0]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"HTTP/1."])
def test_a_daemon_that_does_not_end_its_answer_is_left(tmp_path: Path, sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients: list[socket.socket] = []
        left = threading.Event()

        def drip() -> None:
            client, _ = listener.accept()
            clients.append(client)
            client.sendall(sent)
            for _ in range(100):
                try:
                    client.sendall(b" " if sent.endswith(b"\n") else b"")
                except OSError:
                    return
                left.wait(0.02)

        thread = threading.Thread(target=drip)
        thread.start()
        url = read_url(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(DaemonUnreachable, match=r"no answer within 0.2 s"):
            remote(tmp_path, None, seconds=0.2).ask(url, "/")
        left.set()
        for client in clients:
            with suppress(OSError):  # what was sent after the daemon was left may have reset the connection
                client.shutdown(socket.SHUT_RDWR)
            client.close()
        thread.join()


class Watched(RemoteDaemons):
    """Keeps how long each step of its calls may wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds=seconds)
        self.limits: list[float | None] = []

    def _connection(self, url: DaemonUrl) -> http.client.HTTPConnection:
        limits = self.limits

        class Limited(socket.socket):
            def settimeout(self, value: float | None) -> None:
                limits.append(value)
                super().settimeout(value)

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = Limited()
                self.sock.settimeout(self.timeout)
                self.sock.connect((self.host, self.port))

        return Connection(url.host, url.port, timeout=self.seconds)


def test_each_step_of_a_call_waits_no_longer_than_what_is_left_of_its_time(tmp_path: Path) -> None:
    asked = Watched(30.0)
    host, port = free_address()
    with served(tmp_path / "a.sock", address=f"{host}:{port}"):
        assert isinstance(asked.ask(read_url(f"http://{host}:{port}"), "/api/v1/status"), dict)
    connected, *later = asked.limits
    assert connected == 30.0
    assert len(later) >= 2  # for the headers, and for each part of the body
    limits = [limit for limit in later if limit is not None]
    assert limits == sorted(limits, reverse=True)
    assert all(0 < limit < 30.0 for limit in limits)


def test_what_speaks_no_https_is_told_apart(tmp_path: Path, made: Certificate) -> None:
    host, port = free_address()
    is_plain = pytest.raises(DaemonUnreachable, match=r"no HTTPS there: .*httpTLS")
    with served(tmp_path / "a.sock", address=f"{host}:{port}"), is_plain:
        remote(tmp_path, made).ask(read_url(f"https://{host}:{port}"), "/")
    with pytest.raises(DaemonUnreachable, match="does not answer: Connection refused"):
        remote(tmp_path, made).ask(read_url(f"https://{host}:{port}"), "/")


@pytest.mark.parametrize(
    "text", ["worker-1", "https://", "https://a:99999", "https://a/status", "https://u:p@a", "ftp://a"]
)
def test_a_url_is_that_of_a_daemon(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected https://HOST"):
        read_url(text)


@pytest.mark.parametrize("host", ["worker-1:8891", "10.0.0.7", "[fd00::7]:8891", "127.0.0.1.example"])
def test_plain_http_to_another_machine_is_refused_with_what_to_do(host: str) -> None:
    with pytest.raises(ValueError, match=r"set httpTLS .*or ssh -L 8891:127\.0\.0\.1"):
        read_url(f"http://{host}")
    assert str(read_url("http://[::1]:9")) == "http://[::1]:9"
    assert str(read_url("https://[fd00::7]")) == "https://[fd00::7]:8891"


def test_files_that_cannot_be_used_are_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("schl\u00fcssel")
    for token in (tmp_path / "absent", tmp_path / "secret"):
        with pytest.raises(CommandFailed, match=str(token)) as refused:
            RemoteDaemons(token_file=token, seconds=1)
        assert "schl" not in str(refused.value)
    shutil.copy(tmp_path / "secret", tmp_path / "ca")
    with pytest.raises(CommandFailed, match="expected certificates in PEM"):
        RemoteDaemons(ca_file=tmp_path / "ca", seconds=1)


def test_many_are_asked_beside_each_other_and_one_that_hangs_holds_up_none() -> None:
    freed, at_once, most = threading.Event(), threading.Semaphore(0), 70

    def call(i: int) -> int:
        if i == 5:
            freed.wait(30)
        if i == 6:
            raise DaemonUnreachable("https://six", "away")
        at_once.release()
        return i

    found = ask_all([lambda i=i: call(i) for i in range(most)], seconds=0.2)  # type: ignore[misc]  # i is bound
    freed.set()
    assert [each.result for each in found if not each.problem] == [i for i in range(most) if i not in (5, 6)]
    assert (found[5].problem, found[6].problem) == ("no answer in time: does its name resolve?", "away")
