"""A node comes to cri-proxy by a label, and goes back by one: the installer's pod on a node that is as kubeadm left it.

systemd is process 1, containerd and the kubelet are its services. The kubelet is a program of ours (``kubelet``), and
the API server one that answers for a Node and Leases.
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE, KubeletNode
from cri_proxy.kube_api.lease import leases_of
from tests.fakes.api_server import ApiServer, api_server
from tests.testbed.certificates import Certificate
from tests.testbed.daemon import AdminSocket
from tests.testbed.errors import TryoutError
from tests.testbed.image import write_image
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until
from tests.vm.stories.kubelet import ACCOUNT, HEARTBEAT, MANIFESTS, NAME, NODE, PARTICULAR, Plain
from tests.vm.stories.stage import OUT, PATIENCE_SECONDS, Look, Notes, PatientClient, look_at, say

RUNTIME = "unix:///run/containerd/containerd.sock"
BROUGHT = Path("/rig/installer")  # the image, the DaemonSet, and the API server's certificate
LEASE = f"{leases_of('kube-system')}/cri-proxy-installer"
ADMIN = Path("/run/cri-proxy/admin.sock")
JOURNAL = Path("/opt/cri-proxy/installer/journal.json")
LABEL = "cri-proxy.io/node"
BOUNDS = ("--daemon-seconds=300", "--steady-seconds=5")
GUARD_SECONDS = 60  # from the start of the timer, some 10 s before the kubelet is restarted
# Everything that the installer could leave something in
PLACES = ("/etc", "/opt", "/usr/bin", "/usr/lib/systemd", "/usr/local", "/usr/sbin", "/var/lib/kubelet")
CONTAINERD = f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""
KUBELET = """\
#!/usr/bin/python3 -IS
import sys
if sys.argv[1:] == ["--version"]:
    sys.exit("no kubelet of Kubernetes")
sys.path[:0] = ["/site", "/rig/stories"]
from tests.vm.stories.kubelet import main
main()
"""
UNIT = """\
[Service]
EnvironmentFile=/var/lib/kubelet/kubeadm-flags.env
Environment=PYTHONUNBUFFERED=1 KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={port}
ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
KillMode=process
"""
# What the owner of so slow a machine would write
SLOW = """\
[Service]
TimeoutStartSec=300
"""
KUBELET_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
systemReserved: {cpu: 750m}
"""


class Cluster:
    """The API server's objects, and the DaemonSet's controller."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        server.put(NODE, {"metadata": {"name": NAME, "labels": {}}, "status": {"conditions": []}})
        server.put(HEARTBEAT, {"metadata": {"name": NAME}, "spec": {}})
        self._daemonset = yaml.safe_load((BROUGHT / "daemonset.yaml").read_text())

    def label(self, value: str, *options: str) -> None:
        """Give the Node this label, '' for none, and the pod of the DaemonSet if it is for such a node."""
        with self.server.lock:
            node = self.server.objects[NODE]
            labels = {LABEL: value} if value else {}
            self.server.put(NODE, {**node, "metadata": {**node["metadata"], "labels": labels}})
        pod: Plain = json.loads(json.dumps(self._daemonset["spec"]["template"]))
        selector = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = selector["nodeSelectorTerms"]
        values = next(each["values"] for each in term["matchExpressions"] if each["key"] == LABEL)
        pod["metadata"] = {**pod["metadata"], "name": "installer", "namespace": "kube-system"}
        pod["spec"]["containers"][0]["args"] += options
        manifest = MANIFESTS / "installer.json"
        if value not in values:
            manifest.unlink(missing_ok=True)
        elif not manifest.exists():
            put_whole(manifest, json.dumps(pod))

    def is_ready(self) -> bool:
        return any(each["status"] == "True" for each in self.server.objects[NODE]["status"]["conditions"])

    def lease(self) -> tuple[str, str]:
        """Return the holder of the installer's turn and its failure."""
        lease = self.server.objects.get(LEASE, {"metadata": {}, "spec": {}})
        annotations = lease["metadata"].get("annotations") or {}
        return lease["spec"].get("holderIdentity", ""), annotations.get("cri-proxy.io/failure", "")

    def delete_lease(self) -> None:
        with self.server.lock:
            del self.server.objects[LEASE]


class Node(Notes):
    """The machine, seen past the kubelet: by its files, systemd and its containerd."""

    def __init__(self) -> None:
        super().__init__()
        self._crictl = PodKubelet(PatientClient(RUNTIME), KubeletNode(0))

    async def pods(self) -> dict[str, int]:
        """Return the first process of the container of each pod that runs, by the pod's name."""
        running = pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING))
        request = pb.ListContainersRequest(filter=running)
        found = await self._crictl.call("ListContainers", request, pb.ListContainersResponse)
        return {each.labels["io.kubernetes.pod.name"]: await self._crictl.pid(each.id) for each in found.containers}

    async def look(self, step: str) -> dict[str, Look]:
        pids = await self.pods()
        return self.report(step, {f"{name}/c0": look_at(pid) for name, pid in pids.items() if name != "installer"})

    def state(self, step: str, cluster: Cluster) -> None:
        """Note what the node is like."""
        self.fact(f"{step}: kubelet", words_of("kubelet"))
        self.fact(f"{step}: daemon", words_of("cri-proxy"))
        self.fact(f"{step}: lease", cluster.lease())
        self.fact(f"{step}: ready", cluster.is_ready())
        self.fact(f"{step}: phase", phase())


def read_journal() -> Plain:
    """Return the installer's journal, empty where there is none."""
    try:
        found: Plain = json.loads(JOURNAL.read_text())
    except FileNotFoundError:
        return {}
    return found


def phase() -> str:
    return str(read_journal().get("phase", ""))


def words_of(unit: str) -> list[str]:
    """Return the command line of the process of a unit, () where none runs."""
    pid = run("systemctl", "show", "--property=MainPID", "--value", unit).strip()
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0") if pid != "0" else []


def files() -> dict[str, str]:
    """Return the digest of every file, and the target of every link, in which the installer could leave something."""
    found = {}
    for path in (path for place in PLACES for path in Path(place).rglob("*")):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file() and MANIFESTS not in path.parents:
            found[str(path)] = f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def put_whole(path: Path, text: str) -> None:
    """Write a file so that it is never seen in part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def workload(name: str, cpus: int) -> None:
    """Let the kubelet run a Guaranteed pod."""
    amounts = {"cpu": str(cpus), "memory": "32Mi"}
    container = {"name": "c0", "resources": {"requests": amounts, "limits": amounts}}
    manifest = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    put_whole(MANIFESTS / f"{name}.json", json.dumps(manifest))


def run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


async def eventually(what: str, check: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return check()

    say(f"waiting: {what}")
    await until(what, is_so, seconds=2 * PATIENCE_SECONDS)  # an installation has many steps
    say(f"it is so: {what}")


def prepare(port: int) -> None:
    """Make the node what kubeadm leaves: containerd, the kubelet's unit and files."""
    for path, text in (
        ("/etc/containerd/config.toml", CONTAINERD),
        ("/usr/bin/kubelet", KUBELET),
        ("/etc/systemd/system/kubelet.service", UNIT.format(port=port)),
        ("/etc/systemd/system/cri-proxy.service.d/slow.conf", SLOW),
        ("/var/lib/kubelet/config.yaml", KUBELET_CONFIG),
        (
            "/var/lib/kubelet/kubeadm-flags.env",
            f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={RUNTIME}"\n',
        ),
    ):
        put_whole(Path(path), text)
    Path("/usr/bin/kubelet").chmod(0o755)
    run("systemctl", "daemon-reload")


async def runs(node: Node, name: str) -> None:
    async def is_there() -> bool:
        return name in await node.pods()

    await until(f"{name} runs", is_there, seconds=PATIENCE_SECONDS)


async def play(node: Node, cluster: Cluster) -> None:
    await eventually("the Node is Ready", cluster.is_ready)
    workload("before", 1)
    await runs(node, "before")
    untouched = files()
    await node.look("untouched")
    node.state("untouched", cluster)
    await turned_back(node, cluster)
    await installed(node, cluster)
    await uninstalled(node, cluster)
    now = files()
    node.fact("back: changed", sorted(path for path in {*untouched, *now} if untouched.get(path) != now.get(path)))


async def turned_back(node: Node, cluster: Cluster) -> None:
    """The Node does not become Ready, and the pod that waits for it is killed: what is left is the host's timer."""
    PARTICULAR.write_text(RUNTIME)
    cluster.label("install", *BOUNDS, f"--guard-seconds={GUARD_SECONDS}")
    await eventually("the Node is waited for", is_node_waited_for)
    pids = await node.pods()
    (MANIFESTS / "installer.json").unlink()
    os.kill(pids["installer"], signal.SIGKILL)
    await eventually("the timer has turned it back", lambda: phase() == "failed" and cluster.is_ready())
    node.fact("turned back: by", run("journalctl", "--output=cat", "--unit=cri-proxy-turn-back"))
    await node.look("turned back")
    node.state("turned back", cluster)


async def installed(node: Node, cluster: Cluster) -> None:
    """A new pod says why, and goes on once a person has looked; then the node's pods are pinned."""
    PARTICULAR.unlink()
    cluster.label("install", *BOUNDS)
    await eventually("the failure is told", lambda: cluster.lease()[1] != "")
    node.fact("turned back: failure", cluster.lease())
    cluster.delete_lease()
    await eventually("it is installed", lambda: phase() == "done" and cluster.lease() == ("", ""))
    node.state("installed", cluster)
    workload("pinned", 1)
    await runs(node, "pinned")
    await node.look("installed")
    placed = (await AdminSocket(ADMIN).status()).containers
    node.fact("installed: status", {each.pod: [str(each.cpus), str(each.exclusive)] for each in placed})


async def uninstalled(node: Node, cluster: Cluster) -> None:
    cluster.label("uninstall")
    await eventually("nothing is installed", lambda: phase() == "" and cluster.lease() == ("", ""))
    cluster.label("")
    await node.look("back")
    node.state("back", cluster)


def is_node_waited_for() -> bool:
    """Whether the kubelet was led to the proxy, and nothing is left to do but wait; or it turned back before that."""
    journal = read_journal()
    return journal.get("position", 0) == len(journal.get("actions", ())) - 1 or journal.get("phase") == "failed"


async def main() -> None:
    node = Node()
    ACCOUNT.mkdir(parents=True)
    shutil.copy(BROUGHT / "ca.crt", ACCOUNT)
    (ACCOUNT / "token").write_text(ApiServer.token)
    try:
        with api_server(Certificate(BROUGHT / "ca.crt", BROUGHT / "server.key")) as server:
            prepare(server.port)
            say(run("systemctl", "start", "containerd"))
            write_image(Path("/tmp/image.tar"))
            say(run("ctr", "--namespace=k8s.io", "images", "import", "/tmp/image.tar"))
            say(run("ctr", "--namespace=k8s.io", "images", "import", str(BROUGHT / "image.tar")))
            cluster = Cluster(server)
            say(run("systemctl", "start", "kubelet"))
            await play(node, cluster)
    except TryoutError:
        tell_the_end()
        raise
    finally:
        (OUT / "cri-proxy").mkdir()
        (OUT / "cri-proxy" / "cri-proxy.log").write_text(run("journalctl", "--output=cat", "--unit=cri-proxy"))
        node.write()


def tell_the_end() -> None:
    """Print what was said last by those whose logs stay behind."""
    for unit in ("kubelet", "containerd", "cri-proxy-turn-back"):
        say(f"{unit}: {run('journalctl', '--output=cat', '--lines=8', f'--unit={unit}')}")
    for log in Path("/var/log/pods").glob("kube-system_installer_*/installer/*.log"):
        say(f"the installer: {log.read_text()[-4000:]}")


if __name__ == "__main__":
    asyncio.run(main())
