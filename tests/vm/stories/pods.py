"""Words for the pods of the stories."""

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed

MIB = 1 << 20


def shared(name: str, *, cpu_mcpu: int = 500) -> ContainerSpec:
    """A container that shares CPUs. With its memory limit it has no nodes but those of its pool."""
    return ContainerSpec(name, cpu_request_mcpu=cpu_mcpu, memory_limit_bytes=32 * MIB)


def near(pod: str, container: str = "c0") -> tuple[str, str]:
    """The annotation of a pod whose container wants to be where another pod is, whatever else speaks against it."""
    match = f"match: {{key: pod/name, operator: Equals, values: [{pod}]}}"
    wish = f"{container}: [{{scope: {{key: namespace, operator: Exists}}, {match}, weight: 100}}]"
    return ("cri-proxy.io/affinity", wish)


def alone(name: str, cpu_mcpu: int, *annotations: tuple[str, str], command: str = "", memory_mib: int = 32) -> PodSpec:
    """A Guaranteed pod of one container, c0; ``command`` is a shell script instead of sleeping."""
    container = guaranteed("c0", cpu_mcpu, memory_bytes=memory_mib * MIB)
    if command:
        container = ContainerSpec(
            "c0",
            cpu_mcpu,
            cpu_mcpu,
            memory_request_bytes=memory_mib * MIB,
            memory_limit_bytes=memory_mib * MIB,
            command=("/bin/sh", "-c", command),
        )
    return PodSpec(name, (container,), annotations=tuple(sorted(annotations)))


def holding(mib: int) -> str:
    """A shell command that holds so much memory for good: dd fills its buffer, then waits on a pipe nobody reads."""
    return f"dd if=/dev/zero bs={mib}M count=1 | sleep 1000000"
