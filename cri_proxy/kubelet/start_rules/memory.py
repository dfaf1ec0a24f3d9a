"""Judge the reservations of memory for NUMA nodes, without which the Static memory manager does not start. Pure.

Sources, of Kubernetes: pkg/kubelet/apis/config/validation/validation_reserved_memory.go (what an entry may be),
pkg/kubelet/cm/memorymanager/memory_manager.go (nodes that there are; each sum is what the node keeps from pods),
node_container_manager_linux.go (what it keeps: both reservations and the hard threshold of eviction).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.edits import edit_of
from cri_proxy.kubelet.settings import KubeletSettings, Setting
from cri_proxy.kubelet.start_rules.problem import StartHost, StartProblem, listed, removal, state_edit
from sysfs.quantity import QuantityError, bytes_text, parse_bytes

_MEMORY: Final = "memory"
_KIND: Final = re.compile(r"memory|hugepages-.+")
_ZERO: Final = re.compile(r"0*(\.0*)?[A-Za-z]*")
_THRESHOLD: Final = "memory.available"
_USUAL_THRESHOLD: Final = "100Mi"  # where evictionHard is not set at all


@dataclass(frozen=True, slots=True)
class _Amount:
    """An amount of memory, or of huge pages, that ``reservedMemory`` keeps on a node; all as written."""

    node: str
    kind: str
    amount: str


def reserved_memory(settings: KubeletSettings, host: StartHost) -> Iterator[StartProblem]:
    """Take reservations of memory that are whole; the policy Static needs them, on nodes that there are."""
    setting, policy = settings.get(keys.RESERVED_MEMORY), settings.get(keys.MEMORY_POLICY)
    amounts = _amounts(setting)
    off = (edit_of(policy, "None"), state_edit(settings, _MEMORY)) if policy.value == "Static" else ()
    if _has_wrong(amounts):
        text = (
            f"{setting.sentence}, which holds an amount twice, an amount of zero, or a resource that is neither memory "
            "nor huge pages"
        )
        yield StartProblem(text, (*removal(settings, keys.RESERVED_MEMORY), *off))
    elif off and not amounts:
        yield StartProblem(f"{policy.sentence} without {keys.RESERVED_MEMORY}", off)
    elif off:
        if host.nodes and (beyond := {each.node for each in amounts} - {str(node) for node in host.nodes}):
            yield StartProblem(f"{setting.sentence}, and there is no NUMA node {min(beyond)}", off)
        if why := _unlike(settings, amounts):
            yield StartProblem(f"{policy.sentence} with {setting}, where {why}", off)


def _amounts(setting: Setting) -> list[_Amount]:
    """Return the entries of the key as ``settings`` has it: ``0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi``."""
    return [
        _Amount(node, *pair.partition("=")[::2])
        for entry in filter(None, setting.value.split(";"))
        for node, _, limits in (entry.partition(":"),)
        for pair in filter(None, limits.split(","))
    ]


def _has_wrong(amounts: list[_Amount]) -> bool:
    twice = any(count > 1 for count in Counter((each.node, each.kind) for each in amounts).values())
    return twice or any(not _KIND.fullmatch(each.kind) or _ZERO.fullmatch(each.amount) for each in amounts)


def _unlike(settings: KubeletSettings, amounts: list[_Amount]) -> str:
    """Return what is not reserved as the node keeps it from pods, '' where all is, or where it cannot be said."""
    pages = sorted({each.kind for each in amounts} - {_MEMORY})
    if pages:
        return f"{pages[0]} cannot be equal to what systemReserved and kubeReserved hold of it, which is nothing"
    kept = [settings.get(f"{mapping}.{_MEMORY}") for mapping in (keys.SYSTEM_RESERVED, keys.KUBE_RESERVED)]
    threshold = _threshold(settings)
    try:
        wanted = sum(parse_bytes(each.value or "0") for each in (*kept, threshold))
        found = sum(parse_bytes(each.amount) for each in amounts)
    except QuantityError:  # a percentage, for one
        return ""
    if found == wanted:
        return ""
    sources = listed([each for each in (*kept, threshold) if each.value])
    return f"{bytes_text(found)} in all are not the {bytes_text(wanted)} that are kept from pods ({sources})"


def _threshold(settings: KubeletSettings) -> Setting:
    """Return the hard threshold of memory for eviction; the usual one goes with the first other that is set."""
    key = f"{keys.EVICTION_HARD}.{_THRESHOLD}"
    found = settings.get(key)
    is_usual = not settings.entries(keys.EVICTION_HARD) or settings.get(keys.MERGED_EVICTION).value == "true"
    return found if found.value or not is_usual else Setting(key, _USUAL_THRESHOLD)
