"""Facts of a healthy node as values, for the rules of ``cri-proxy doctor``: change one, and see what is found."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from cri_proxy.doctor.catalog import Finding
from cri_proxy.doctor.facts.model import (
    CgroupFacts,
    HostFacts,
    KubeletFacts,
    ProcessFacts,
    ProxyFacts,
    RuntimeFacts,
)
from cri_proxy.kubelet.reservation import NodeCpus
from cri_proxy.kubelet.settings import KubeletFile, KubeletSettings, Word, merge_settings
from sysfs.cpuset import CpuSet

OURS, THEIRS = "unix:///run/cri-proxy/cri-proxy.sock", "unix:///run/containerd/containerd.sock"
CONFIG = "/var/lib/kubelet/config.yaml"
WIRED = f"containerRuntimeEndpoint: {OURS}\ncgroupDriver: systemd\n"
KUBELET = ProcessFacts(812, "kubelet", started_seconds=1000.0, sockets=frozenset({1}))
DAEMON = ProcessFacts(640, "python3", ("cri-proxy", "run"), sockets=frozenset({2}))


def settings(text: str = WIRED, *words: str, where: str = "process 812", path: str = CONFIG) -> KubeletSettings:
    """What a configuration file and the words of a command line set."""
    return merge_settings([Word(word, where) for word in words], [KubeletFile(path, text)])


def cpus(online: str = "0-7", *, available: str = "", reserved: str = "", isolated: str = "") -> NodeCpus:
    return NodeCpus(*(CpuSet.parse(text) for text in (online, available or online, reserved, isolated)))


def kubelet(text: str = WIRED, /, **changes: object) -> KubeletFacts:
    """A running kubelet that is connected, now and next with this configuration."""
    facts = KubeletFacts(KUBELET, settings(text), (KubeletFile(CONFIG, text, 900.0),), True, (), settings(text))
    return replace(facts, **changes)  # type: ignore[arg-type]


def proxy(**changes: object) -> ProxyFacts:
    facts = ProxyFacts(
        "/run/cri-proxy/cri-proxy.sock",
        is_running=True,
        node_name="worker-1",
        processes=(DAEMON,),
        holders=(DAEMON,),
        is_enabled=True,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def healthy(**changes: object) -> HostFacts:
    facts = HostFacts(
        proxy(),
        kubelet(),
        RuntimeFacts("/run/containerd/containerd.sock"),
        CgroupFacts(2, has_cpuset=True),
        cpus=cpus(),
        processes=(KUBELET, DAEMON),
        host_name="worker-1",
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def only(rule: Callable[[HostFacts], Iterator[Finding]], facts: HostFacts) -> Finding:
    """The single finding of a rule."""
    (found,) = rule(facts)
    return found


def codes(rule: Callable[[HostFacts], Iterator[Finding]], facts: HostFacts) -> list[str]:
    return [finding.code for finding in rule(facts)]
