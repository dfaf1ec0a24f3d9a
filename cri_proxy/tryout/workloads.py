"""The pods of the try-out: a handful that between them show every kind of placement that the machine has room for."""

from dataclasses import dataclass

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed

MIB = 1 << 20
# Every pod of a try-out carries it, so that all of them can be found and removed whatever happened
LABEL = "cri-proxy.io/tryout"
PREFER_SHARED = "cri-proxy.io/prefer-shared-cpus"
AFFINITY = "cri-proxy.io/affinity"
HYPERTHREADS = "cri-proxy.io/hyperthreads"


@dataclass(frozen=True, slots=True)
class Role:
    """A pod and what it is there to show, in a few words."""

    pod: PodSpec
    shows: str


def reserved_cpus(cpu_count: int) -> int:
    """How many CPUs the try-out reserves for the system: one, where that leaves any."""
    return 1 if cpu_count > 1 else 0


def cast(cpu_count: int, *, run: str) -> tuple[Role, ...]:
    """The pods for a machine of so many CPUs, in the order of their creation; ``run`` is the value of their label.

    The sums fit: with one CPU reserved and one exclusive, whoever asks for a share needs a third.
    """
    roles = [
        Role(_pod("node-agent", _share("agent", 100), namespace="kube-system"), "a system pod: the reserved CPUs"),
        Role(_pod("batch", ContainerSpec("worker")), "BestEffort: whatever is shared"),
    ]
    if cpu_count != 2:
        roles += [
            Role(_pod("web", _share("server", 250)), "Burstable: a share of a pool"),
            Role(
                _pod("report", guaranteed("writer", 500), annotations={PREFER_SHARED: "true"}),
                "annotated to share, though Guaranteed",
            ),
        ]
    if cpu_count > 1:
        roles.append(Role(_pod("database", guaranteed("engine", 1000)), "Guaranteed, 1 CPU: a CPU of its own"))
    if cpu_count > 4:
        roles.append(
            Role(_pod("stream", guaranteed("codec", 1500)), "Guaranteed, 1.5 CPUs: one of its own, half shared")
        )
    if cpu_count > 8:
        roles.append(
            Role(
                _pod("trading", guaranteed("engine", 2000), annotations={HYPERTHREADS: "own-core"}),
                "whole cores: nobody else runs on a thread of them",
            )
        )
    pair = (
        (ContainerSpec("front"), ContainerSpec("back")) if cpu_count == 2 else (_share("front", 50), _share("back", 50))
    )
    roles.append(
        Role(
            PodSpec("pair", pair, annotations=((AFFINITY, "back: [front]"),)),
            "two containers that want to sit together",
        )
    )
    return tuple(Role(_labelled(role.pod, run), role.shows) for role in roles)


def left_out(cpu_count: int) -> str:
    """What a small machine has no room for, as a sentence; '' when nothing is missing."""
    if cpu_count > 2:
        return ""
    if cpu_count == 2:
        return (
            "With 2 CPUs, one reserved and one exclusive, no pod that asks for a share fits: web and report stay away."
        )
    return "With 1 CPU nothing can be exclusive: database stays away."


def _share(name: str, cpu_mcpu: int) -> ContainerSpec:
    return ContainerSpec(name, cpu_request_mcpu=cpu_mcpu, cpu_limit_mcpu=2 * cpu_mcpu, memory_request_bytes=16 * MIB)


def _pod(
    name: str, container: ContainerSpec, *, namespace: str = "default", annotations: dict[str, str] | None = None
) -> PodSpec:
    return PodSpec(name, (container,), namespace=namespace, annotations=tuple(sorted((annotations or {}).items())))


def _labelled(pod: PodSpec, run: str) -> PodSpec:
    return PodSpec(
        pod.name, pod.containers, namespace=pod.namespace, annotations=pod.annotations, labels=((LABEL, run),)
    )
