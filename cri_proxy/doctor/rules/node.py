"""Judge the node around both: its name, CPUs and their reservation, cgroups, and runc. Pure."""

from collections.abc import Iterator
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.kubelet.reservation import reservation_gap
from cri_proxy.kubelet.settings import CGROUP_DRIVER, HOSTNAME
from cri_proxy.runtime.runc import affinity_remedy, keeps_affinity, reverses_masks

SYSTEMD: Final = "systemd"
_KEEPS_AFFINITY: Final = (6, 2)  # the first Linux that keeps an affinity when a process enters a cpuset
_SAFE_CPUS: Final = 8  # a mask of one byte has no order


def node_name(facts: HostFacts) -> Iterator[Finding]:
    """The daemon chooses its part of a ConfigMap by the name that the node has in the cluster."""
    kubelet, own = facts.kubelet, facts.proxy
    said = (kubelet.now if kubelet.process else kubelet.next).get(HOSTNAME)
    name = (said.value or facts.host_name).strip().lower()
    # A daemon that is not told another name takes the one of the kubelet's next start.
    ours = own.node_name or (kubelet.next.get(HOSTNAME).value or facts.host_name).strip().lower()
    if name and ours and name != ours:
        why = f"{said.where}, --{HOSTNAME}" if said.value else "the host's name"
        yield FindingCode.NODE_NAME.finding(
            f"the kubelet's node is {name} ({why}), and cri-proxy's is {ours}",
            f"start cri-proxy with --node-name {name} (CRI_PROXY_ARGS in /etc/default/cri-proxy)",
        )


def reservation(facts: HostFacts) -> Iterator[Finding]:
    """The kubelet should offer pods what can be granted."""
    kubelet = facts.kubelet
    if facts.cpus is None:
        return
    reserve = (kubelet.now if kubelet.process else kubelet.next).reserve
    gap = reservation_gap(reserve, facts.cpus)
    if gap is not None:
        code = FindingCode.RESERVATION if gap.excess_mcpu > 0 else FindingCode.RESERVATION_UNUSED
        edits = (kubelet.edit(gap.key, gap.value),) if gap.key else ()
        why = gap.remedy.partition(", ")[2]
        yield code.finding(gap.text, ", ".join((*map(str, edits), why)) if edits else gap.remedy, edits)


def isolated_cpus(facts: HostFacts) -> Iterator[Finding]:
    """CPUs that the kernel isolates are for containers that ask for them."""
    if facts.cpus is None:
        return
    isolated = facts.cpus.isolated & facts.cpus.online
    if unused := isolated - facts.cpus.available:
        yield FindingCode.ISOLATED_UNUSED.finding(
            f"the kernel isolates CPUs {unused}, and availableResources.cpu leaves them out: no container can use them",
            "add them to availableResources.cpu, or take them out of the kernel's isolcpus=",
        )
    if both := isolated & facts.cpus.reserved:
        yield FindingCode.ISOLATED_RESERVED.finding(
            f"CPUs {both} are reserved for the system and isolated by the kernel, which balances no load there",
            "reserve others with reservedResources.cpu, or take them out of the kernel's isolcpus=",
        )


def cgroups(facts: HostFacts) -> Iterator[Finding]:
    """Cpusets need their controller, and one program that owns the tree."""
    if facts.cgroups.version and not facts.cgroups.has_cpuset:
        yield FindingCode.NO_CPUSET.finding(
            f"cgroup v{facts.cgroups.version} has no cpuset controller here: containers cannot be pinned",
            "boot a kernel with CONFIG_CPUSETS and without cgroup_disable=cpuset",
        )
    if facts.cgroups.version == 1:
        yield FindingCode.OLD_CGROUPS.finding(
            "the node uses cgroup v1, with which kubelets from 1.35 on do not start unless failCgroupV1 is false",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )
    driver, runtime = facts.kubelet.next.get(CGROUP_DRIVER), facts.runtime
    if runtime.is_systemd is not None and runtime.is_systemd != (driver.value == SYSTEMD):
        other = SYSTEMD if runtime.is_systemd else "cgroupfs"
        yield FindingCode.CGROUP_DRIVER.finding(
            f"the kubelet's cgroupDriver is {driver.value} ({driver.where or 'the default'}), and containerd's "
            f"SystemdCgroup is {str(runtime.is_systemd).lower()} ({runtime.config}): kubelets from 1.31 on take "
            "containerd's at their next start, of containerd before 2.0 through cri-proxy alone",
            f"set cgroupDriver: {other} in the kubelet's configuration, or SystemdCgroup = "
            f"{str(not runtime.is_systemd).lower()} in {runtime.config}",
        )


def runc(facts: HostFacts) -> Iterator[Finding]:
    """Runc before 1.1.6 hands systemd the CPU mask with its bytes reversed."""
    runtime = facts.runtime
    is_many = facts.cpus is not None and bool(facts.cpus.online) and max(facts.cpus.online) >= _SAFE_CPUS
    uses_systemd = facts.kubelet.next.get(CGROUP_DRIVER).value == SYSTEMD or bool(runtime.is_systemd)
    if reverses_masks(runtime.runc) and is_many and uses_systemd:
        yield FindingCode.OLD_RUNC.finding(
            f"runc {runtime.runc} hands systemd CPU masks with their bytes reversed: each `systemctl daemon-reload` "
            "moves containers to other CPUs, until cri-proxy puts them back",
            "upgrade runc to 1.1.6 or later",
        )


def cpu_affinity(facts: HostFacts) -> Iterator[Finding]:
    """A CPU affinity of the runtime cuts what its containers run on, unless kernel or runc resets it."""
    runtime, kernel = facts.runtime, facts.kernel
    if runtime.affinity is None or (kernel and kernel < _KEEPS_AFFINITY) or not keeps_affinity(runtime.runc):
        return
    if facts.cpus is not None and facts.cpus.available <= runtime.affinity:
        return
    unknown = "" if kernel and runtime.runc else ", unless Linux is older than 6.2 or runc is 1.2.7, 1.3.1 or later"
    yield FindingCode.CPU_AFFINITY.finding(
        f"{runtime.affinity_file} sets CPUAffinity={runtime.affinity} for the runtime, and its containers inherit it"
        f"{unknown}: they run on those of their CPUs alone, whatever their cpuset holds",
        f"{affinity_remedy(str(facts.cpus.online) if facts.cpus else '')}; containers that run already keep theirs",
    )


RULES = (node_name, reservation, isolated_cpus, cgroups, runc, cpu_affinity)
