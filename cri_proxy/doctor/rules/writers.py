"""Judge what else writes the cpusets of containers: resource managers and NRI plugins. Pure."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts, ProcessFacts

# Names of processes and plugins that write cpusets, and what they belong to.
WRITERS: Final = {
    "cri-resmgr*": "cri-resource-manager",
    "nri-resource-policy-*": "nri-plugins, a resource policy",
    "nri-memory-policy*": "nri-plugins, memory policy",
    "koordlet": "Koordinator, whose cpuset allocator and CPU burst write cgroups",
    "katalyst-agent": "Katalyst's QoS resource manager",
    "crane-agent": "Crane's CPU manager",
    "cpusetter": "CPU-Pooler",
}
_LEAVE_ALONE = "see to it that it leaves cpuset.cpus and cpuset.mems alone"
# Files of /opt/nri/plugins are named INDEX-NAME; the index orders them.
_INDEXED = "[0-9][0-9]-"


def writer(name: str) -> str:
    """Return the owner of a process or plugin of this name, '' for one that is not known to write cpusets.

    >>> writer("koordlet").partition(",")[0], writer("10-nri-resource-policy-balloons").partition(",")[0], writer("sh")
    ('Koordinator', 'nri-plugins', '')
    """
    short = name[3:] if fnmatchcase(name, f"{_INDEXED}*") else name
    return next((owner for pattern, owner in WRITERS.items() if fnmatchcase(short, pattern)), "")


def cpuset_writers(facts: HostFacts) -> Iterator[Finding]:
    """No other program may pin containers. One finding for each program, however many processes it has."""
    by_owner: dict[str, list[ProcessFacts]] = {}
    for process in facts.processes:
        if owner := writer(process.name):
            by_owner.setdefault(owner, []).append(process)
    for owner, (first, *more) in by_owner.items():
        others = f" and {len(more)} more of them" if more else ""
        yield FindingCode.CPUSET_WRITER.finding(
            f"{first}{others} runs ({owner}): it writes cpusets that cri-proxy has to put back",
            f"remove {owner.partition(',')[0]} from this node, or run it without its CPU pinning",
        )


def nri_plugins(facts: HostFacts) -> Iterator[Finding]:
    """No plugin of the runtime may pin containers; unknown ones are named."""
    for path in facts.nri.installed:
        name = path.rpartition("/")[2]
        if owner := writer(name):
            yield FindingCode.NRI_PLUGIN.finding(
                f"{path} is installed ({owner}): containerd starts it, and it writes cpusets",
                f"remove {path} and restart containerd",
            )
        else:
            yield FindingCode.NRI_UNKNOWN.finding(f"{path} is an NRI plugin that containerd starts", _LEAVE_ALONE)
    for process in facts.nri.clients:
        if not writer(process.name):
            yield FindingCode.NRI_UNKNOWN.finding(f"{process} is connected to the runtime's NRI socket", _LEAVE_ALONE)


def ignored_claims(facts: HostFacts) -> Iterator[Finding]:
    """CPUs that another program chooses for containers must count, where any does."""
    if facts.claims.is_honoured:
        return
    files = [f"{path} lists CPUs that a DRA driver has chosen for containers" for path in facts.claims.files]
    agents = [
        f"{process} runs: Koordinator's scheduler chooses CPUs for pods"
        for process in facts.processes
        if process.name == "koordlet"
    ]
    for text in (*files[:1], *agents[:1]):
        yield FindingCode.CLAIMS_IGNORED.finding(
            f"{text}, and claims: ignore lets others use them too",
            "set claims: honour, or have the other program choose no CPUs",
        )


RULES = (cpuset_writers, nri_plugins, ignored_claims)
