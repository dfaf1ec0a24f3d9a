"""Reduce a PodSandboxConfig to the fields and annotations that are stored; possible secrets are dropped. Pure."""

from collections.abc import Sequence

from cri_proxy.cri.annotations.pod import select
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_request import labels_of


def stored_config(config: pb.PodSandboxConfig, domains: Sequence[str]) -> pb.PodSandboxConfig:
    """Return its names, labels, cgroup and figures, and the annotations of these domains unless they are too long."""
    labels = dict(labels_of(config.labels))
    kept = pb.PodSandboxConfig(metadata=config.metadata, labels=labels, linux=figures_of(config.linux))
    # Others may hold secrets: kubectl keeps the whole pod in one, with the environment of its containers.
    chosen = select(config.annotations, domains)
    if isinstance(chosen, dict):
        kept.annotations.update(chosen)
    return kept


def figures_of(linux: pb.LinuxPodSandboxConfig) -> pb.LinuxPodSandboxConfig:
    """Return its cgroup, overhead and resources, without what only runtimes read (``unified``, huge pages)."""
    kept = pb.LinuxPodSandboxConfig(cgroup_parent=linux.cgroup_parent)
    for name in ("overhead", "resources"):
        if linux.HasField(name):
            part = getattr(kept, name)
            part.CopyFrom(getattr(linux, name))
            part.ClearField("unified")
            part.ClearField("hugepage_limits")
    return kept
