import subprocess
import sys
from pathlib import Path

import psutil

from tests.testbed.shims import end, mounts_below, remove_if_empty, shims_of, sockets

MOUNTINFO = r"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
31 22 0:5 / /tmp/ours/run/shm rw - tmpfs shm rw
32 22 0:6 / /tmp/ours/run/a\040b rw - overlay overlay rw
33 22 0:7 / /tmp/ourselves rw - tmpfs other rw
"""


def test_mounts_below_a_directory_come_last_mounted_first() -> None:
    assert mounts_below(Path("/tmp/ours"), MOUNTINFO) == ("/tmp/ours/run/a b", "/tmp/ours/run/shm")


def test_a_shim_tells_where_its_socket_is(tmp_path: Path) -> None:
    bundle = tmp_path / "io.containerd.runtime.v2.task/k8s.io/C"
    bundle.mkdir(parents=True)
    (bundle / "address").write_text("unix:///run/containerd/s/abc")
    assert sockets(tmp_path) == (Path("/run/containerd/s/abc"),)


def test_only_empty_directories_go(tmp_path: Path) -> None:
    (tmp_path / "a/s").mkdir(parents=True)
    (tmp_path / "b/s").mkdir(parents=True)
    (tmp_path / "b/file").touch()
    remove_if_empty(tmp_path / "a/s", tmp_path / "a", tmp_path / "b/s", tmp_path / "b")
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "file"]


def test_only_shims_of_our_socket_are_ended(tmp_path: Path) -> None:
    program = "print('here', flush=True); input()"
    argv = ["/usr/bin/containerd-shim-runc-v2", "-c", program, "-address", f"{tmp_path}/c.sock"]
    with subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # for a moment after its start a program has no command line, see proc(5)
        assert shims_of(tmp_path / "other.sock") == []
        assert [shim.pid for shim in shims_of(tmp_path / "c.sock")] == [process.pid]
        assert end(tmp_path / "c.sock") == 1
    assert not psutil.pid_exists(process.pid)
