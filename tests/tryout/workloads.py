"""Choose the try-out's pods: one for each kind of placement that fits on a machine of this size. Pure."""

from dataclasses import dataclass, replace

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed

MIB = 1 << 20
# on every pod of a try-out, by which all of them are found and removed
LABEL = "cri-proxy.io/tryout"
PREFER_SHARED = "cri-proxy.io/prefer-shared-cpus"
AFFINITY = "cri-proxy.io/affinity"
HYPERTHREADS = "cri-proxy.io/hyperthreads"


@dataclass(frozen=True, slots=True)
class DemoPod:
    """A pod, and what it shows in a few words."""

    pod: PodSpec
    shows: str


def reserved_cpus(cpu_count: int) -> int:
    """Return how many CPUs the try-out reserves for the system: one, if that leaves any."""
    return 1 if cpu_count > 1 else 0


def demo_pods(cpu_count: int, *, run: str) -> tuple[DemoPod, ...]:
    """Return the pods for a machine with this many CPUs, in order of creation; ``run`` is the value of their label.

    The sums fit: beside one reserved and one exclusive CPU, pods that request a share need a third.
    """
    pods = [
        DemoPod(_pod("node-agent", _share("agent", 100), namespace="kube-system"), "a system pod: the reserved CPUs"),
        DemoPod(_pod("batch", ContainerSpec("worker")), "BestEffort: whatever is shared"),
    ]
    if cpu_count != 2:
        pods += [
            DemoPod(_pod("web", _share("server", 250)), "Burstable: a share of a pool"),
            DemoPod(
                _pod("report", guaranteed("writer", 500), annotations={PREFER_SHARED: "true"}),
                "annotated to share, though Guaranteed",
            ),
        ]
    if cpu_count > 1:
        pods.append(DemoPod(_pod("database", guaranteed("engine", 1000)), "Guaranteed, 1 CPU: a CPU of its own"))
    if cpu_count > 4:
        pods.append(
            DemoPod(_pod("stream", guaranteed("codec", 1500)), "Guaranteed, 1.5 CPUs: one of its own, half shared")
        )
    if cpu_count > 8:
        pods.append(
            DemoPod(
                _pod("trading", guaranteed("engine", 2000), annotations={HYPERTHREADS: "own-core"}),
                "whole cores: no other container runs on their threads",
            )
        )
    pair = (
        (ContainerSpec("front"), ContainerSpec("back")) if cpu_count == 2 else (_share("front", 50), _share("back", 50))
    )
    pods.append(
        DemoPod(
            PodSpec("pair", pair, annotations=((AFFINITY, "back: [front]"),)),
            "two containers that want to sit together",
        )
    )
    return tuple(DemoPod(replace(demo_pod.pod, labels=((LABEL, run),)), demo_pod.shows) for demo_pod in pods)


def omitted_pods(cpu_count: int) -> str:
    """Return a sentence about the pods that a small machine has no room for; '' when none is missing."""
    if cpu_count > 2:
        return ""
    if cpu_count == 2:
        return "With 2 CPUs, one reserved and one exclusive, none is left to share: web and report are omitted."
    return "With 1 CPU nothing can be exclusive: database is omitted."


def _share(name: str, cpu_mcpu: int) -> ContainerSpec:
    return ContainerSpec(name, cpu_request_mcpu=cpu_mcpu, cpu_limit_mcpu=2 * cpu_mcpu, memory_request_bytes=16 * MIB)


def _pod(
    name: str, container: ContainerSpec, *, namespace: str = "default", annotations: dict[str, str] | None = None
) -> PodSpec:
    return PodSpec(name, (container,), namespace=namespace, annotations=tuple(sorted((annotations or {}).items())))
