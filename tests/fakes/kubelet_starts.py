"""What a kubelet's next start uses, and why it would end, for the rules about it."""

from cri_proxy.kubelet.settings import KubeletFile, KubeletSettings, Word, merge_settings
from cri_proxy.kubelet.start_rules.problem import StartHost, StartProblem
from cri_proxy.kubelet.start_rules.rules import start_problems
from sysfs.cpuset import CpuSet, NodeSet

OPTIONS = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}'
STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
MACHINE = StartHost(None, CpuSet.parse("0-7"), NodeSet.parse("0-1"), 2, 64 << 30)


def settings(text: str = "", *words: str, drop_in: str = "") -> KubeletSettings:
    """What a file, a drop-in and the words of a command line set."""
    files = [KubeletFile("/k.yaml", text), *([KubeletFile("/k.d/20.conf", drop_in)] if drop_in else [])]
    return merge_settings([Word(word, "/k.env") for word in words], files)


def problems(
    found: KubeletSettings, version: tuple[int, int] | None = None, *, nodes: str = "0-1", packages: int = 2
) -> list[StartProblem]:
    """Why the kubelet ends on a machine with eight CPUs and 64 GiB."""
    host = StartHost(version, MACHINE.online, NodeSet.parse(nodes), packages, MACHINE.memory_bytes)
    return list(start_problems(found, host))


def reasons(text: str, version: tuple[int, int] | None = None) -> str:
    """The same of a file, as one text."""
    return "; ".join(problem.text for problem in problems(settings(text), version))
