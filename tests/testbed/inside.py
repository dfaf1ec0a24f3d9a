"""Run commands in containers, as a kubelet does for probes, and read what the kernel allows a process there."""

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from tests.testbed.errors import TryoutError
from tests.testbed.kernel import Allowed, read_allowed
from tests.testbed.pod_kubelet import PodKubelet


async def output_of(kubelet: PodKubelet, container_id: str, *command: str) -> str:
    """Return the output of a command in the container. Raises TryoutError when it fails."""
    request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=30)
    reply = await kubelet.call("ExecSync", request, pb.ExecSyncResponse)
    if reply.exit_code:
        raise TryoutError(" ".join(command), f"exit status {reply.exit_code}: {reply.stderr.decode()}")
    return reply.stdout.decode()


async def allowed_inside(kubelet: PodKubelet, container_id: str, *, process: str = "self") -> Allowed:
    """Return the CPUs and nodes of a process inside: the command itself (in the container's cgroups), or '1'."""
    return read_allowed(await output_of(kubelet, container_id, "/bin/cat", f"/proc/{process}/status"))
