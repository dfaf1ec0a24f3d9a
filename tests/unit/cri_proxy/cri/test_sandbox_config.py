from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.sandbox_config import stored_config

CONFIG = pb.PodSandboxConfig(
    metadata=pb.PodSandboxMetadata(name="web", uid="1", namespace="default"),
    hostname="secret",
    labels={"app": "web"},
    annotations={
        "cri-proxy.io/cpu.preserve": "true",
        "memory-type.resource-policy.nri.io/pod": "dram",
        "noderesource.dev/resources": "{}",
        "kubectl.kubernetes.io/last-applied-configuration": "secret",
    },
    linux=pb.LinuxPodSandboxConfig(
        cgroup_parent="/kubepods",
        sysctls={"secret": "secret"},
        resources=pb.LinuxContainerResources(cpu_shares=1024, unified={"secret": "secret"}),
    ),
)


def test_annotations_of_others_are_not_kept() -> None:
    assert sorted(stored_config(CONFIG, DOMAINS).annotations) == [
        "cri-proxy.io/cpu.preserve",
        "memory-type.resource-policy.nri.io/pod",
        "noderesource.dev/resources",
    ]


def test_names_labels_cgroup_and_figures_are_kept() -> None:
    kept = stored_config(CONFIG, DOMAINS)
    assert (kept.metadata, dict(kept.labels)) == (CONFIG.metadata, {"app": "web"})
    assert (kept.linux.cgroup_parent, kept.linux.resources.cpu_shares) == ("/kubepods", 1024)
    assert not kept.linux.HasField("overhead")


def test_nothing_else_is_kept() -> None:
    assert b"secret" not in stored_config(CONFIG, DOMAINS).SerializeToString()
