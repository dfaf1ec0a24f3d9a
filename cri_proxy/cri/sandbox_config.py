"""What of a pod sandbox's configuration is kept: what a later decision can need, and nothing that may be secret.

Annotations of others are left out: kubectl keeps the whole pod in one, with the environment of its containers.
"""

from collections.abc import Sequence

from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.proto import cri_v1_pb2 as pb


def remembered(config: pb.PodSandboxConfig, domains: Sequence[str]) -> pb.PodSandboxConfig:
    """Its names, labels, cgroup and figures, and the annotations of these domains."""
    kept = pb.PodSandboxConfig(metadata=config.metadata, labels=config.labels, linux=figures_of(config.linux))
    for key, value in config.annotations.items():
        if key in KEYS or any(domain in key for domain in domains):
            kept.annotations[key] = value
    return kept


def figures_of(linux: pb.LinuxPodSandboxConfig) -> pb.LinuxPodSandboxConfig:
    """Its cgroup, overhead and resources, without what runtimes alone read (``unified``, huge pages)."""
    kept = pb.LinuxPodSandboxConfig(cgroup_parent=linux.cgroup_parent)
    for name in ("overhead", "resources"):
        if linux.HasField(name):
            part = getattr(kept, name)
            part.CopyFrom(getattr(linux, name))
            part.ClearField("unified")
            part.ClearField("hugepage_limits")
    return kept
