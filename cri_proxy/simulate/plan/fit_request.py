"""Word the pods of manifests as a question to a daemon, where they would land; for its page, as a process of its own.

``python -c "from cri_proxy.simulate.plan.fit_request import main; main()" MEMORY_BYTES NAMESPACE`` reads manifests from
standard input, and writes the question, or ``{"problem": "..."}``. What others have written is parsed there: it may
take all of the process's time and memory, and none of the daemon's.
"""

import json
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from cri_proxy.cri_client.pods import ContainerRole, KubeletNode, create_request, sandbox_config
from cri_proxy.errors import CommandFailed
from cri_proxy.intercept.fit import MOST_BYTES, MOST_CONTAINERS, AskedCreate, encode_creates
from cri_proxy.simulate.plan.pods import PlannedWorkload, arrivals_of, read_workloads
from cri_proxy.yaml_fields import DocumentError
from sysfs.quantity import bytes_text

PAGE: Final = "the manifest"  # the name of what was pasted, in messages
CPU_SECONDS: Final = 5
MEMORY_BYTES: Final = 1 << 30
FIRST_TO_END: Final = "1000"  # when memory is short (proc_pid_oom_score_adj(5))


def creates_of(texts: Iterable[tuple[str, str]], namespace: str, memory_bytes: int) -> list[AskedCreate]:
    """Return what a kubelet would send for the pods of these texts, of which each has a name.

    ``namespace`` is for objects that do not set one, ``memory_bytes`` is the memory of the node, from which a kubelet
    words the memory that a container requests. Raises CommandFailed where there is no pod, and DocumentError.
    """
    workloads: list[PlannedWorkload] = []
    for name, text in texts:
        workloads += read_workloads(text, name, namespace)
    if not workloads:
        raise CommandFailed("the manifests have no pods: no Pod, Deployment, StatefulSet, DaemonSet or Job")
    node = KubeletNode(memory_bytes)
    return [
        AskedCreate(sandbox_config(each.pod, node), create_request(each.pod, container, "", node=node))
        for each in arrivals_of(workloads, 1)
        for container in each.pod.containers
        if container.role is not ContainerRole.INIT  # it has ended when the others come
    ]


def question_of(asked: list[AskedCreate]) -> str:
    """Return the body of the question. Raises CommandFailed for more than a daemon answers at once."""
    if len(asked) > MOST_CONTAINERS:
        raise CommandFailed(f"{len(asked)} containers; the daemon answers for {MOST_CONTAINERS} at once")
    body = encode_creates(asked)
    if len(body) > MOST_BYTES:
        count = f"{len(asked)} containers are a question of {bytes_text(len(body))}"
        raise CommandFailed(f"{count}; the daemon reads {bytes_text(MOST_BYTES)} at once: ask about fewer pods")
    return body


def answer(text: str, namespace: str, memory_bytes: int) -> str:
    """Return the question about the pods of this text, or the problem with it, as JSON."""
    try:
        return question_of(creates_of([(PAGE, text)], namespace, memory_bytes))
    except (CommandFailed, DocumentError, RecursionError, MemoryError) as error:
        return json.dumps({"problem": str(error) or f"cannot be read: {type(error).__name__}"})


def bound_this_process() -> None:
    """Let this process have so much time and memory, and be the first to end when memory is short."""
    with suppress(OSError, ValueError):  # a sandbox may forbid it: then the caller's time limit is what is left
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_END)


def main(arguments: list[str] | None = None, source: TextIO | None = None, target: TextIO | None = None) -> None:
    """Answer what stands in standard input."""
    memory_bytes, namespace = arguments if arguments is not None else sys.argv[1:]
    if source is None:
        # With a source given, the process is its caller's.
        bound_this_process()
    (target or sys.stdout).write(answer((source or sys.stdin).read(), namespace, int(memory_bytes)))
