"""Start a private containerd with an image in one directory; at the end remove its pods, processes and mounts.

Works as root without CAP_SYS_RESOURCE (CI containers), without a network and without CNI plugins.
"""

import contextlib
import shutil
import signal
from pathlib import Path

import psutil

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE, KubeletNode
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from tests.testbed import cgroups, shims
from tests.testbed.child import Child, Service, run
from tests.testbed.errors import TryoutError
from tests.testbed.image import write_image
from tests.testbed.kernel import CAP_SYS_RESOURCE, has_capability
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

READY_SECONDS = 60.0
SOCKET = "containerd.sock"
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
REMEDY = "apt-get install containerd runc"
TASK_LEFT = "cannot delete running task"  # containerd's words where a start that was given up left its task

# containerd 1.3 and later read version 2, and 2.x migrates it.
# - the opt plugin creates /opt/containerd, outside our directory; the others only log errors on most machines
# - restrict_oom_score_adj: lowering oom_score_adj needs CAP_SYS_RESOURCE
# - disable_tcp_service: the streaming server (exec, attach) would listen on the network; ExecSync does not need it
# - enable_cdi: off by default in 1.7, which is the first to know it
# - Root: runc would keep its state in /run/containerd/runc
CONFIGURATION = """\
version = 2
root = "{directory}/root"
state = "{directory}/run"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", \
"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", \
"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = {restrict_oom_score_adj}
  disable_tcp_service = true
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{directory}/cni/bin"
    conf_dir = "{directory}/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{directory}/runc"
        BinaryName = "{runc}"
        SystemdCgroup = {systemd_cgroups}
"""


def missing_programs() -> tuple[str, ...]:
    """Return the programs that a private containerd needs and that are not installed."""
    return tuple(name for name in PROGRAMS if shutil.which(name) is None)


def configuration(
    directory: Path,
    *,
    snapshotter: str,
    restrict_oom_score_adj: bool,
    systemd_cgroups: bool = False,
    runc: str = "",
) -> str:
    """Return containerd's configuration as TOML."""
    return CONFIGURATION.format(
        directory=directory,
        socket=directory / SOCKET,
        image=IMAGE,
        restrict_oom_score_adj=str(restrict_oom_score_adj).lower(),
        snapshotter=snapshotter,
        systemd_cgroups=str(systemd_cgroups).lower(),
        runc=runc,
    )


class PrivateContainerd(Service):
    """A containerd with root, state, sockets and logs below one directory.

    ``async with PrivateContainerd(directory) as containerd`` starts it, imports the busybox image and waits until
    CRI answers. Leaving ends it and everything it started, and removes the directory, mounts and cgroups.
    """

    def __init__(self, directory: Path, *, name: str = "", systemd_cgroups: bool = False, runc: str = "") -> None:
        """``directory`` is created if missing, and removed at the end. ``name`` is the cgroup that holds its pods.

        ``systemd_cgroups`` is containerd's SystemdCgroup and the kubelet's cgroupDriver: needs systemd as process 1.
        ``runc`` is the program in runc's place.
        """
        self.directory = directory
        self.socket = directory / SOCKET
        self.endpoint = f"unix://{self.socket}"
        self._runc = runc
        self.cgroup_root = f"/{name or directory.name}"
        self.node = KubeletNode(
            *(psutil.virtual_memory().total, str(directory / "logs"), self.cgroup_root), systemd_cgroups=systemd_cgroups
        )
        """The node for a kubelet in front of it: logs and cgroups are in places that ``stop`` cleans up."""
        self._had_shim_directory = shims.SHIM_SOCKETS.exists()

    async def start(self) -> None:
        """Create the directory, start, import the image. Raises TryoutError with the end of containerd's log."""
        if missing := missing_programs():
            raise TryoutError("containerd", f"not installed: {', '.join(missing)}", REMEDY)
        for name in ("root", "run", "runc", "tmp", "cni/net.d", "logs"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        text = configuration(
            self.directory,
            snapshotter="overlayfs" if shims.overlay_works(self.directory) else "native",
            restrict_oom_score_adj=not has_capability(CAP_SYS_RESOURCE),
            systemd_cgroups=self.node.systemd_cgroups,
            runc=self._runc,
        )
        (self.directory / "config.toml").write_text(text)
        write_image(self.directory / "image.tar")
        await self.launch()
        self.ctr("images", "import", str(self.directory / "image.tar"))
        # an event tells the CRI plugin of an imported image, a little later
        await until("the image is known", self._knows_image, seconds=READY_SECONDS)

    async def launch(self) -> None:
        """Start the program on what the directory holds (also after ``kill``) and wait until CRI answers."""
        self._child = Child(
            ["containerd", "--config", str(self.directory / "config.toml"), "--log-level", "warn"],
            log=self.directory / "containerd.log",
            environment={"TMPDIR": str(self.directory / "tmp")},
        )
        await until("containerd answers", self._answers, seconds=READY_SECONDS)

    def ctr(self, *words: str) -> str:
        """Ask containerd for something that CRI knows nothing of; what ctr prints. Raises TryoutError."""
        return run(("ctr", "-a", str(self.socket), "-n", "k8s.io", *words), seconds=READY_SECONDS)

    async def end_tasks(self, sandbox_id: str, *, status: str = "") -> None:
        """End the tasks of a pod's containers, of which CRI may know nothing; with a ``status``, those in it alone.

        containerd 1.6 keeps the task of a start whose deadline passed while the shim made it, as CREATED, and refuses
        to remove the container (``TASK_LEFT``). The task has run nothing of the container: it waits in ``runc init``.
        """
        rows = (line.split() for line in self.ctr("tasks", "list").splitlines()[1:])  # id, PID, status
        tasks = {row[0] for row in rows if status in ("", row[-1])}
        client = RuntimeClient(self.endpoint)
        try:
            request = pb.ListContainersRequest(filter=pb.ContainerFilter(pod_sandbox_id=sandbox_id))
            reply = await PodKubelet(client, self.node).call("ListContainers", request, pb.ListContainersResponse)
        finally:
            await client.close()
        for container_id in tasks.intersection(container.id for container in reply.containers):
            with contextlib.suppress(TryoutError):  # it has ended meanwhile
                self.ctr("tasks", "delete", "--force", container_id)

    async def halt(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the program alone: containers go on under their shims, as in an upgrade of containerd."""
        if self._child is not None:
            await self._child.end(number=number)

    async def stop(self) -> None:
        """End it and everything it started; remove mounts, cgroups and the directory. Safe to call twice."""
        if self._child is not None and self._child.exit_status is None:
            with contextlib.suppress(CallFailed, RuntimeUnavailable):
                await self._remove_pods()
        await self.halt()
        self._child = None
        shims.end(self.socket)
        sockets = shims.sockets(self.directory / "run")
        shims.unmount_below(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        for path in sockets:
            path.unlink(missing_ok=True)
        if not self._had_shim_directory:
            shims.remove_if_empty(shims.SHIM_SOCKETS, shims.SHIM_SOCKETS.parent)
        cgroups.remove_everywhere(self.cgroup_root)

    async def _remove_pods(self) -> None:
        client = RuntimeClient(self.endpoint)
        try:
            kubelet = PodKubelet(client, self.node)
            for sandbox_id in await kubelet.sandboxes():
                await kubelet.remove_pod(sandbox_id)
        finally:
            await client.close()

    async def _answers(self) -> bool:
        """Return True when CRI answers. Raises TryoutError when the program has ended."""
        if self._child is not None:
            self._child.require_running()
        return await self._ask("/runtime.v1.RuntimeService/Version", pb.VersionRequest().SerializeToString()) != b""

    async def _knows_image(self) -> bool:
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=IMAGE)).SerializeToString()
        reply = await self._ask("/runtime.v1.ImageService/ImageStatus", request)
        return pb.ImageStatusResponse.FromString(reply).HasField("image")

    async def _ask(self, method: str, message: bytes) -> bytes:
        """Return the reply of a call; empty when it fails, since CRI is not initialised yet."""
        client = RuntimeClient(self.endpoint)
        try:
            return await client.unary(method, message, timeout_seconds=5)
        except (CallFailed, RuntimeUnavailable):
            return b""
        finally:
            await client.close()
