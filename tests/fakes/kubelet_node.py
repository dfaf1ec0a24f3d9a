"""A node for ``cri-proxy doctor``: files below a root, and real processes with the names and sockets of others.

``proc`` of the root has links to the processes of this node alone, so that nothing else on the machine is seen; in
namespaces of its own it is the kernel's. A process is a small Python that takes a name, listens on sockets and connects
to others, and waits.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cri_proxy.cli.main import run_command
from tests.fakes.machines import small_machine
from tests.fakes.serving import served
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.views import FixedDaemon

OURS, THEIRS = "unix:///run/cri-proxy/cri-proxy.sock", "unix:///run/containerd/containerd.sock"
LISTEN, RUNTIME, ADMIN = "run/cri-proxy/cri-proxy.sock", "run/containerd/containerd.sock", "run/cri-proxy/admin.sock"
CONFIG, KUBEADM_FLAGS = "var/lib/kubelet/config.yaml", "var/lib/kubelet/kubeadm-flags.env"
INSTANCE = "var/lib/kubelet/instance-config.yaml"
# The drop-in of kubeadm's packages.
KUBEADM_UNIT = """\
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
# A healthy node: the unit and configuration that lead to the proxy, and the proxy's own unit.
WIRED = {
    "usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet\n",
    "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBEADM_UNIT,
    "lib/systemd/system/cri-proxy.service": "[Service]\n",
    "etc/systemd/system/multi-user.target.wants/cri-proxy.service": "[Service]\n",
    "etc/hostname": "worker-1\n",
    "etc/containerd/config.toml": '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
    "SystemdCgroup = true\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory\n",
    CONFIG: f"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: {OURS}\ncgroupDriver: systemd\n",
}
_PLAY = """
import json, os, socket, sys, threading
plan = json.loads(sys.argv[1])
open("/proc/self/comm", "w").write(plan["name"])
open_ones = []
def answer(server):
    while True:
        client, _ = server.accept()
        open_ones.append(client)
        threading.Thread(target=lambda: client.recv(64) and client.sendall(b"!"), daemon=True).start()
for path in plan["listens"]:
    server = socket.socket(socket.AF_UNIX)
    # As the proxy does: bound to another name, and renamed.
    server.bind(path + ".new")
    os.chmod(path + ".new", 0o600)
    server.listen()
    os.rename(path + ".new", path)
    open_ones.append(server)
    threading.Thread(target=answer, args=(server,), daemon=True).start()
for path in plan["connects"]:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(b"?")
    client.recv(1)  # until it is accepted its other end has no number
    open_ones.append(client)
print("ready", flush=True)
sys.stdin.read()
"""


class KubeletNode:
    """The node below ``root``. ``processes`` are those that run, by name."""

    def __init__(self, root: Path, stack: ExitStack, *, is_alone: bool = False) -> None:
        """``is_alone``: in a pid and a mount namespace of its own."""
        self.root = root
        self._stack = stack
        self._is_alone = is_alone
        for directory in ("proc", "run/cri-proxy", "run/containerd", "var/lib/cri-proxy"):
            (root / directory).mkdir(parents=True)
        if is_alone:
            subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
            stack.callback(lambda: subprocess.run(["umount", root / "proc"], check=True))
        else:
            (root / "proc/stat").symlink_to("/proc/stat")
        write_tree(root, small_machine())
        self._play = root / "play.py"
        self._play.write_text(_PLAY)

    def put(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def start(self, *words: str, name: str, listens: Sequence[str] = (), connects: Sequence[str] = ()) -> int:
        """Run a process of this name and command line, with its sockets; give its pid."""
        plan = {"name": name, "listens": self._paths(listens), "connects": self._paths(connects)}
        child = subprocess.Popen(
            [name, "-S", self._play, json.dumps(plan), *words],
            executable=sys.executable,
            env={**os.environ, "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}"},  # argv[0] does not tell
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._stack.enter_context(child)  # closes its standard input, on which it ends, and waits
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        if not self._is_alone:
            (self.root / "proc" / str(child.pid)).symlink_to(f"/proc/{child.pid}")
        return child.pid

    def age(self, pid: int) -> None:
        """Let this process be as old as the machine."""
        link = self.root / "proc" / str(pid)
        link.unlink()
        link.mkdir()
        for name in ("cmdline", "fd", "status"):
            (link / name).symlink_to(f"/proc/{pid}/{name}")
        before, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        words = fields.split()
        words[19] = "1"  # starttime, field 22 of proc(5), of which two stand before
        (link / "stat").write_text(f"{before}) {' '.join(words)}")

    def start_kubelet(self, *words: str, connects: Sequence[str] = (LISTEN,)) -> int:
        """A kubelet that the unit's usual command line has started. cAdvisor's connection comes with every one."""
        given = words or ("--config=/var/lib/kubelet/config.yaml",)
        return self.start(*given, name="kubelet", connects=[*connects, RUNTIME])

    def start_runtime(self) -> int:
        return self.start(name="containerd", listens=[RUNTIME])

    def start_proxy(
        self, daemon: FixedDaemon | None = None, *, listens: Sequence[str] = (LISTEN,), connects: Sequence[str] = ()
    ) -> int:
        """A daemon that serves the kubelet's socket from a process, and commands from this one."""
        if not (self.root / ADMIN).exists():
            self._stack.enter_context(served(self.root / ADMIN, daemon))
        return self.start("/usr/bin/cri-proxy", "run", name="python3", listens=listens, connects=connects)

    def doctor(self, *options: str) -> int:
        """Run the command on this node; give its exit status."""
        return run_command(["doctor", "--root", str(self.root), *options])

    def _paths(self, names: Sequence[str]) -> list[str]:
        return [str(self.root / name) for name in names]


@contextmanager
def kubelet_node(*, wired: bool = True, is_alone: bool = False) -> Iterator[KubeletNode]:
    """A node of its own, below a path that is short enough for sockets; ``wired``: with the files of a healthy one."""
    with tempfile.TemporaryDirectory(prefix="node-") as directory, ExitStack() as stack:
        node = KubeletNode(Path(os.path.realpath(directory)), stack, is_alone=is_alone)
        if wired:
            node.put(WIRED)
        yield node
