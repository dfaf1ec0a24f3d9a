"""Random pods as users write them: every QoS class, amounts of CPU and memory, and any annotation of the table."""

from random import Random

from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from policies.base import Labels

MEBIBYTE = 1 << 20
MEMORY_BYTES = (32 * MEBIBYTE, 128 * MEBIBYTE, 600 * MEBIBYTE)
SIZES_MCPU = (500, 1000, 1000, 1500, 2000, 2500, 3000, 4000)
NAMESPACES = ("default", "default", "default", "kube-system", "batch")


def random_pod(random: Random, name: str) -> PodSpec:
    containers = tuple(random_container(random, f"c{i}") for i in range(random.randint(1, 3)))
    return PodSpec(name, containers, random.choice(NAMESPACES), random_annotations(random), (("app", "x"),))


def random_container(random: Random, name: str) -> ContainerSpec:
    """A container that asks for nothing, for a part of its limit, or for just its limit."""
    memory_bytes = random.choice(MEMORY_BYTES)
    match random.randint(0, 6):
        case 0:
            return ContainerSpec(name)
        case 1:
            return ContainerSpec(name, cpu_request_mcpu=random.choice((100, 250, 900, 1500)))
        case 2:
            return ContainerSpec(name, cpu_request_mcpu=1000, cpu_limit_mcpu=2000, memory_request_bytes=memory_bytes)
        case _:
            return guaranteed(name, random.choice(SIZES_MCPU), memory_bytes=memory_bytes)


def random_annotations(random: Random) -> Labels:
    """None, or some rows of the table with values that they take; sorted, as CRI has them."""
    rows = random.sample(TABLE, random.choice((0, 0, 1, 1, 2, 3)))
    return tuple(sorted(_annotation(random, row) for row in rows))


def _annotation(random: Random, row: Annotation[object]) -> tuple[str, str]:
    """(key, value): for the pod or for its first container, in any of the domains."""
    value, domain = random.choice(row.examples), random.choice(DOMAINS)
    if row.by_container_only or "c0" in value:
        return f"{domain}/{row.key}", value
    return random.choice((f"{domain}/{row.key}", f"{row.key}.{domain}/pod", f"{row.key}.{domain}/container.c0")), value
