"""A containerd of one's own in one directory: started, given an image, and ended without a trace.

Works as root without CAP_SYS_RESOURCE (CI containers), without a network and without CNI plugins. Facts of
containerd 1.6 to 2.x that it relies on stand beside the configuration below.
"""

import contextlib
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.errors import TryoutError
from cri_proxy.cri_client.kernel import CAP_SYS_RESOURCE, has_capability, memory_total_bytes
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import IMAGE, Node
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.testbed import cgroups, leftovers
from cri_proxy.testbed.child import Child, run
from cri_proxy.testbed.image import write_image
from cri_proxy.testbed.wait import finish, until

READY_SECONDS = 60.0
SOCKET = "containerd.sock"
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
REMEDY = "apt-get install containerd runc"

# version 2 is read by containerd 1.3 and later, and migrated by 2.x.
# - the opt plugin makes /opt/containerd, outside our directory; the others only complain on most machines
# - restrict_oom_score_adj: lowering oom_score_adj needs CAP_SYS_RESOURCE
# - disable_tcp_service: the streaming server (exec, attach) would listen on the network; ExecSync does not need it
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
"""


def missing_programs() -> tuple[str, ...]:
    """Programs that a private containerd needs and that are not installed."""
    return tuple(name for name in PROGRAMS if shutil.which(name) is None)


def configuration(directory: Path, *, snapshotter: str, restrict_oom_score_adj: bool) -> str:
    """What containerd is told, as TOML."""
    return CONFIGURATION.format(
        directory=directory,
        socket=directory / SOCKET,
        image=IMAGE,
        restrict_oom_score_adj=str(restrict_oom_score_adj).lower(),
        snapshotter=snapshotter,
    )


class PrivateContainerd:
    """A containerd whose root, state, sockets and logs are below one directory.

    ``async with PrivateContainerd(directory) as containerd`` starts it, imports the busybox image and waits until
    CRI answers; leaving ends it with everything it started, and removes the directory, mounts and cgroups.
    """

    def __init__(self, directory: Path, *, name: str = "") -> None:
        """``directory`` is made if missing, and removed at the end. ``name`` is the cgroup that holds its pods."""
        self.directory = directory
        self.socket = directory / SOCKET
        self.cgroup_root = f"/{name or directory.name}"
        self._child: Child | None = None
        self._had_shim_directory = leftovers.SHIM_SOCKETS.exists()

    @property
    def endpoint(self) -> str:
        """Its CRI endpoint."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """The program's process id; 0 when it does not run."""
        return self._child.pid if self._child is not None else 0

    @property
    def node(self) -> Node:
        """What a kubelet in front of it should know: logs and cgroups stay in places that we clean up."""
        return Node(
            memory_capacity_bytes=memory_total_bytes(),
            log_directory=str(self.directory / "logs"),
            cgroup_root=self.cgroup_root,
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await finish(self.stop())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish(self.stop())

    async def start(self) -> None:
        """Make the directory, start, import the image. Raises TryoutError with containerd's last words."""
        if missing := missing_programs():
            raise TryoutError("containerd", f"not installed: {', '.join(missing)}", REMEDY)
        for name in ("root", "run", "runc", "tmp", "cni/net.d", "logs"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        text = configuration(
            self.directory,
            snapshotter="overlayfs" if leftovers.overlay_works(self.directory) else "native",
            restrict_oom_score_adj=not has_capability(CAP_SYS_RESOURCE),
        )
        (self.directory / "config.toml").write_text(text)
        write_image(self.directory / "image.tar")
        await self.launch()
        image = str(self.directory / "image.tar")
        run(["ctr", "-a", str(self.socket), "-n", "k8s.io", "images", "import", image], seconds=READY_SECONDS)
        # the CRI plugin learns of an imported image from an event, so a little later
        await until("the image is known", self._knows_image, seconds=READY_SECONDS)

    async def launch(self) -> None:
        """Start the program on what the directory holds (also after ``kill``) and wait until CRI answers."""
        self._child = Child(
            ["containerd", "--config", str(self.directory / "config.toml"), "--log-level", "warn"],
            log=self.directory / "containerd.log",
            environment={"TMPDIR": str(self.directory / "tmp")},
        )
        await until("containerd answers", self._answers, seconds=READY_SECONDS)

    async def halt(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the program alone: containers go on under their shims, as when containerd is upgraded."""
        if self._child is not None:
            await self._child.end(number=number)

    def send(self, number: signal.Signals) -> None:
        """Send the program alone a signal that does not end it; nothing happens when it does not run."""
        if self._child is not None:
            self._child.send(number)

    async def stop(self) -> None:
        """End it and everything it started, unmount, remove cgroups and the directory. Safe to call twice."""
        if self._child is not None and self._child.exit_status is None:
            with contextlib.suppress(CallFailed, RuntimeUnavailable):
                await self._remove_pods()
        await self.halt()
        self._child = None
        leftovers.end_shims(self.socket)
        shim_sockets = leftovers.shim_sockets(self.directory / "run")
        leftovers.unmount_below(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        for path in shim_sockets:
            path.unlink(missing_ok=True)
        if not self._had_shim_directory:
            leftovers.remove_if_empty(leftovers.SHIM_SOCKETS, leftovers.SHIM_SOCKETS.parent)
        cgroups.remove_everywhere(self.cgroup_root)

    async def _remove_pods(self) -> None:
        client = RuntimeClient(self.endpoint)
        try:
            kubelet = Kubelet(client, self.node)
            for sandbox_id in await kubelet.sandboxes():
                await kubelet.remove_pod(sandbox_id)
        finally:
            await client.close()

    async def _answers(self) -> bool:
        """True when CRI answers. Raises TryoutError when the program has ended."""
        if self._child is not None:
            self._child.require_running()
        return await self._asks("/runtime.v1.RuntimeService/Version", pb.VersionRequest().SerializeToString()) != b""

    async def _knows_image(self) -> bool:
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=IMAGE)).SerializeToString()
        reply = await self._asks("/runtime.v1.ImageService/ImageStatus", request)
        return pb.ImageStatusResponse.FromString(reply).HasField("image")

    async def _asks(self, method: str, message: bytes) -> bytes:
        """The reply of a call, empty when it fails: not listening yet, or CRI not initialised yet."""
        client = RuntimeClient(self.endpoint)
        try:
            return await client.unary(method, message, timeout_seconds=5)
        except (CallFailed, RuntimeUnavailable):
            return b""
        finally:
            await client.close()
