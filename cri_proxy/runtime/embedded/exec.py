"""CRI exec and attach of the embedded runtime: no process runs; a few commands (cat, nproc, echo) are emulated."""

from collections.abc import Sequence

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded.state import Container, NodeState, RefusedCall

_NOT_FOUND_STATUS = 127
_CGROUP = "/sys/fs/cgroup/"


def exec_sync(node: NodeState, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
    """Run a command and return its output; unknown commands end with status 127, as a shell's do.

    Known are ``true``, ``false``, ``echo``, ``nproc``, ``cat`` of /proc/self/status and of the cgroup's cpuset files,
    ``sh -c`` of one of these.
    """
    words = f'failed to exec in container: failed to find container "{request.container_id}" in store'
    container = node.container(request.container_id, words)
    _require_running(container, "failed to exec in container: ")
    if not request.cmd:
        problem = "OCI runtime exec failed: exec failed: args must not be empty: unknown"
        raise RefusedCall(
            Code.UNKNOWN, f'failed to exec in container: failed to start exec "{node.new_id()}": {problem}'
        )
    status, output, errors = run(node, container, request.cmd)
    return pb.ExecSyncResponse(stdout=output.encode(), stderr=errors.encode(), exit_code=status)


def _require_running(container: Container, words: str = "") -> None:
    if not container.running:
        raise RefusedCall(Code.UNKNOWN, f"{words}container is in {container.state_name} state")


def run(node: NodeState, container: Container, command: Sequence[str]) -> tuple[int, str, str]:
    """Return exit status, output and error output of a command."""
    program = command[0].rpartition("/")[2]
    arguments = command[1:]
    if program == "sh" and len(arguments) >= 2 and arguments[0] == "-c":
        return run(node, container, arguments[1].split() or ["true"])
    match program:
        case "true" | "false":
            return int(program == "false"), "", ""
        case "echo":
            return 0, " ".join(arguments) + "\n", ""
        case "nproc":
            return 0, f"{len(node.effective(container)[0])}\n", ""
        case "cat":
            return _cat(node, container, arguments)
    return _NOT_FOUND_STATUS, "", f"{command[0]}: not found\n"


def _cat(node: NodeState, container: Container, paths: Sequence[str]) -> tuple[int, str, str]:
    texts = files(node, container)
    missing = [path for path in paths if path not in texts]
    errors = "".join(f"cat: can't open '{path}': No such file or directory\n" for path in missing)
    return int(bool(missing)), "".join(texts.get(path, "") for path in paths), errors


def files(node: NodeState, container: Container) -> dict[str, str]:
    """Return the files in which the kernel shows a process of this container its CPUs and memory nodes."""
    cpus, mems = node.effective(container)
    status = f"Name:\tcat\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
    return {
        "/proc/self/status": status,
        "/proc/1/status": status,
        _CGROUP + "cpuset.cpus": f"{container.kernel_cpus}\n",
        _CGROUP + "cpuset.mems": f"{container.kernel_mems}\n",
        _CGROUP + "cpuset.cpus.effective": f"{cpus}\n",
        _CGROUP + "cpuset.mems.effective": f"{mems}\n",
    }


def exec(node: NodeState, request: pb.ExecRequest) -> pb.ExecResponse:
    """Return the address of a streaming server; nothing listens there."""
    container = node.container(request.container_id, f'failed to find container "{request.container_id}" in store')
    _require_running(container)
    _require_streams(request.stdin, request.stdout, request.stderr)
    return pb.ExecResponse(url=f"http://127.0.0.1:0/exec/{container.id[:8]}")


def attach(node: NodeState, request: pb.AttachRequest) -> pb.AttachResponse:
    """Return the address of a streaming server; nothing listens there."""
    container = node.container(request.container_id, "failed to find container in store")
    _require_running(container)
    _require_streams(request.stdin, request.stdout, request.stderr)
    return pb.AttachResponse(url=f"http://127.0.0.1:0/attach/{container.id[:8]}")


def _require_streams(*streams: bool) -> None:
    if not any(streams):
        raise RefusedCall(Code.INVALID_ARGUMENT, "one of stdin, stdout, or stderr must be set")
