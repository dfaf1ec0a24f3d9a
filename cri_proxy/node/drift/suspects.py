"""Who has likely rewritten a cpuset, by the evidence that is there (pure). It is a guess, and worded as one."""

from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.node.drift.kubelet_managers import KubeletManagers
from sysfs.model import Machine


def suspect(enforced: Enforced, machine: Machine, managers: KubeletManagers, *, runtime_differs: bool) -> str:
    """The likeliest, with the evidence, strongest first. ``runtime_differs``: the runtime's own record changed too."""
    everywhere = enforced.inherits_cpus or machine.online <= enforced.cpus
    if runtime_differs:
        return "the runtime's own record says so too, as after an NRI plugin or another client (crictl update)"
    if managers.cpu_policy.lower() not in ("", "none") and enforced.cpus in managers.sets:
        return f"likely the kubelet's CPU manager (policy {managers.cpu_policy}): the same set is in its state file"
    if everywhere and enforced.is_systemd_scope:
        return "likely systemd: its scope unit has no CPUs set, and a daemon-reload writes what the unit says"
    if everywhere:
        return "somebody cleared the set; the runtime's record is unchanged, so it was written to the cgroup directly"
    return "somebody wrote the cgroup's files; neither the runtime nor the kubelet has this set on record"
