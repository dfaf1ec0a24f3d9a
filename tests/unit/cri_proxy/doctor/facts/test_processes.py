import os
import socket
import time
from pathlib import Path

import psutil
import pytest

from cri_proxy.doctor.facts.model import ProcessFacts
from cri_proxy.doctor.facts.processes import is_embedded, is_kubelet, is_proxy, list_processes

OWN = str(Path("/proc/self/ns/pid").readlink())
STAT = " ".join(["0"] * 49)


def tree(root: Path, *pids: int) -> Path:
    """A ``proc`` with links to these processes of the machine."""
    (root / "proc").mkdir()
    for name in ("stat", *map(str, pids)):
        (root / "proc" / name).symlink_to(f"/proc/{name}")
    return root


def test_a_process_has_its_command_line_its_start_and_its_sockets(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as held:
        (found,) = list_processes(tree(tmp_path, os.getpid()))
        assert found.sockets is not None
        assert os.fstat(held.fileno()).st_ino in found.sockets
    assert found.pid == os.getpid()
    assert found.words == tuple(psutil.Process().cmdline())
    assert 0 < found.started_seconds < time.time()


def test_a_root_without_processes_has_none(tmp_path: Path) -> None:
    assert list_processes(tmp_path) == ()
    assert list_processes(tree(tmp_path)) == ()
    assert psutil.PROCFS_PATH == "/proc"


def test_descriptors_that_may_not_be_read_are_unknown_and_threads_of_the_kernel_left_out(tmp_path: Path) -> None:
    tree(tmp_path)
    for pid, words in ((7, "kubelet\0--x\0"), (8, "")):
        (tmp_path / "proc" / str(pid)).mkdir()
        (tmp_path / "proc" / str(pid) / "stat").write_text(f"{pid} (kubelet) S {STAT}")
        (tmp_path / "proc" / str(pid) / "cmdline").write_text(words)
    (found,) = list_processes(tmp_path)
    assert (found.pid, found.name, found.words, found.sockets) == (7, "kubelet", ("kubelet", "--x"), None)


@pytest.mark.parametrize(
    ("name", "is_one", "holds_one"),
    [("kubelet", True, False), ("k3s-server", True, True), ("kubelite", True, True), ("kubectl", False, False)],
)
def test_a_kubelet_is_known_by_its_name(name: str, is_one: bool, holds_one: bool) -> None:
    process = ProcessFacts(1, name)
    assert (is_kubelet(process), is_embedded(process)) == (is_one, holds_one)


@pytest.mark.parametrize(
    ("namespace", "cgroup", "is_contained"),
    [
        ("pid:[1]", "0::/system.slice/x.service", True),
        (OWN, "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope", True),
        (OWN, "4:cpuset:/kubepods/pod1/c1", True),
        (OWN, "0::/system.slice/kubelet.service", False),
    ],
)
def test_a_process_of_a_container_is_neither_whatever_its_name_and_words(
    tmp_path: Path, namespace: str, cgroup: str, is_contained: bool
) -> None:
    """A pod must not pass for the node's kubelet, nor for a daemon or a runtime whose files are believed."""
    place = tree(tmp_path) / "proc" / "7"
    (place / "ns").mkdir(parents=True)
    (place / "ns" / "pid").symlink_to(namespace)
    (place / "cgroup").write_text(f"{cgroup}\n")
    (place / "stat").write_text(f"7 (kubelet) S {STAT}")
    (place / "cmdline").write_text("cri-proxy\0run\0")
    (found,) = list_processes(tmp_path)
    assert (is_kubelet(found), is_proxy(found), bool(found.words)) == (not is_contained,) * 3


@pytest.mark.parametrize(
    ("name", "words", "is_one"),
    [
        ("python3", ("/opt/cri-proxy/bin/python", "/opt/cri-proxy/bin/cri-proxy", "run", "--config", "x"), True),
        ("python3", ("python", "-m", "cri_proxy.cli.main", "run"), True),
        ("cri-proxy-files", ("python", "/usr/bin/cri-proxy", "run"), False),
        ("python3", ("python", "/usr/bin/cri-proxy", "config-agent"), False),
        ("vi", ("vi", "/usr/bin/cri-proxy"), False),
        ("bash", ("bash", "-c", "cri-proxy run"), False),
    ],
)
def test_a_daemon_is_known_by_its_command(name: str, words: tuple[str, ...], is_one: bool) -> None:
    assert is_proxy(ProcessFacts(1, name, words)) is is_one
