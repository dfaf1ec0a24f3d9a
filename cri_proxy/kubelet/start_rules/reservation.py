"""Judge what the kubelet keeps from pods: CPUs and amounts, and the cgroups on which they are enforced. Pure.

Sources, of Kubernetes: pkg/kubelet/apis/config/validation/validation.go (``reservedSystemCPUs``, enforcement),
cmd/kubelet/app/server.go (CPUs that are online; resources and quantities of the amounts),
pkg/kubelet/cm/node_container_manager_linux.go (no more than the node has), cpumanager (a static policy needs CPUs).
"""

from collections.abc import Iterator
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.edits import Edit, edit_at, edit_of
from cri_proxy.kubelet.settings import KubeletSettings, Setting
from cri_proxy.kubelet.start_rules.problem import StartHost, StartProblem, listed, removal, state_edit
from sysfs.cpuset import CpuSet
from sysfs.quantity import QuantityError, bytes_text, parse_bytes, parse_mcpu

# What enforceNodeAllocatable may hold, and the key that has to stand beside it.
_ENFORCEABLE: Final = {
    "pods": "",
    "none": "",
    "system-reserved": keys.SYSTEM_CGROUP,
    "system-reserved-compressible": keys.SYSTEM_CGROUP,
    "kube-reserved": keys.KUBE_CGROUP,
    "kube-reserved-compressible": keys.KUBE_CGROUP,
}
_COMPRESSIBLE_FROM: Final = (1, 32)
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pid")
_SMALL: Final = "500m"  # a reservation for any node
_SMALL_MEMORY: Final = "100Mi"
_MCPU_PER_CPU: Final = 1000


def reserved_cpus(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Reserve CPUs that exist, by one way."""
    setting, reserve = settings.get(keys.RESERVED_CPUS), settings.reserve
    large = _too_large(settings, _MCPU_PER_CPU * len(host.online)) if host.online else []
    if setting.value:
        cgroups = [each for key in (keys.SYSTEM_CGROUP, keys.KUBE_CGROUP) if (each := settings.get(key)).value]
        # A static CPU manager needs a reservation: what takes one away leaves another.
        kept = reserve.cpus & host.online or CpuSet.of([min(host.online, default=0)])
        if cgroups:
            amount = () if reserve.system_mcpu or reserve.kube_mcpu else (_amount(settings, setting, reserve.mcpu),)
            edits = (*removal(settings, keys.RESERVED_CPUS), *amount, *(edit_of(each, _SMALL) for each in large))
            yield StartProblem(f"{setting.sentence}, which excludes {listed(cgroups)}", edits)
        elif not reserve.cpus:
            yield StartProblem(f"{setting.sentence}, which is no CPU list", (edit_of(setting, str(kept)),))
        elif host.online and (beyond := reserve.cpus - host.online):
            yield StartProblem(f"{setting.sentence}, and CPUs {beyond} are not online", (edit_of(setting, str(kept)),))
    if large and not reserve.cpus:
        text = f"{listed(large)}: more CPU is reserved than the {len(host.online)} CPUs of this node"
        yield StartProblem(text, tuple(edit_of(each, _SMALL) for each in large))
    policy = settings.get(keys.CPU_POLICY)
    if policy.value == "static" and not reserve.mcpu:
        edits = (edit_of(policy, "none"), *removal(settings, keys.CPU_OPTIONS), state_edit(settings, "cpu"))
        yield StartProblem(f"{policy.sentence}, which needs a reservation of CPU", edits)


def _too_large(settings: KubeletSettings, capacity_mcpu: int) -> list[Setting]:
    """Return the amounts of more than half the node, where both together are more than it has."""
    amounts = ((keys.SYSTEM_CPU, settings.reserve.system_mcpu), (keys.KUBE_CPU, settings.reserve.kube_mcpu))
    if sum(mcpu for _, mcpu in amounts) <= capacity_mcpu:
        return []
    return [settings.get(key) for key, mcpu in amounts if mcpu > capacity_mcpu / 2]


def _amount(settings: KubeletSettings, setting: Setting, mcpu: int) -> Edit:
    """Return the edit that reserves an amount, beside those that are there, else where ``setting`` stands."""
    beside = [each.where for each in settings.entries(keys.KUBE_RESERVED)]
    place, _, flag = setting.where.partition(", --")
    own = f"{place}, --{keys.flag_of(keys.KUBE_RESERVED)}" if flag else place
    return edit_at((*beside, own)[0], keys.KUBE_CPU, f"{mcpu or _MCPU_PER_CPU}m")


def reserved_amounts(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Reserve quantities of what can be reserved, and no more memory than there is."""
    found = [each for mapping in (keys.SYSTEM_RESERVED, keys.KUBE_RESERVED) for each in settings.entries(mapping)]
    memory: dict[Setting, int] = {}
    for each in found:
        name = each.key.partition(".")[2]
        if name not in _RESOURCES:
            text = f"{each.sentence}, and the kubelet reserves {', '.join(_RESOURCES)}"
            yield StartProblem(text, removal(settings, each.key))
            continue
        try:
            amount = parse_mcpu(each.value) if name == "cpu" else parse_bytes(each.value)
        except QuantityError as error:
            small = (edit_of(each, _SMALL),) if name == "cpu" else removal(settings, each.key)
            yield StartProblem(f"{each.sentence}: {error}", small)
            continue
        if name == "memory":
            memory[each] = amount
    if host.memory_bytes and sum(memory.values()) > host.memory_bytes:
        large = [each for each, amount in memory.items() if amount > host.memory_bytes / 2]
        text = f"{listed(large)}: more memory is reserved than the {bytes_text(host.memory_bytes)} of this node"
        yield StartProblem(text, tuple(edit_of(each, _SMALL_MEMORY) for each in large))


def enforcement(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Enforce reservations only on cgroups that are named."""
    setting = settings.get(keys.ENFORCED)
    words = [word.strip() for word in setting.value.split(",") if word.strip()]
    kept = list(dict.fromkeys(word for word in words if _is_enforceable(settings, host, word)))
    if len(kept) > 1:
        kept = [word for word in kept if word != "none"]
    kept = [word for word in kept if f"{word}-compressible" not in kept]
    if kept != words:
        text = (
            f"{setting.sentence}, of which the kubelet takes {','.join(kept) or 'nothing'}: an entry of reserved "
            "resources needs its cgroup and stands once, and none stands alone"
        )
        yield StartProblem(text, (edit_of(setting, ",".join(kept or ["none"])),))
    per_qos = settings.get(keys.CGROUPS_PER_QOS)
    if per_qos.value == "false" and any(word != "none" for word in kept):
        yield StartProblem(f"{per_qos.sentence}, which needs {keys.ENFORCED}: none", (edit_of(per_qos, "true"),))


def _is_enforceable(settings: KubeletSettings, host: StartHost, word: str) -> bool:
    needs = _ENFORCEABLE.get(word)
    if word.endswith("-compressible") and host.version and host.version < _COMPRESSIBLE_FROM:
        return False
    return needs is not None and (not needs or bool(settings.get(needs).value))
