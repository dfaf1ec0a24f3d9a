"""``StartProblem``: why a kubelet ends while it starts; ``StartHost``: what the rules ask of the node. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.kubelet import settings as keys
from cri_proxy.kubelet.edits import Edit, edit_at
from cri_proxy.kubelet.settings import KubeletSettings, Setting
from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class StartHost:
    """The kubelet's version, and the machine: online CPUs, NUMA nodes, packages, memory, version of the cgroups.

    None, empty and 0: unknown.
    """

    version: tuple[int, int] | None = None
    online: CpuSet = CpuSet()
    nodes: NodeSet = NodeSet()
    packages: int = 0
    memory_bytes: int = 0
    cgroups: int = 0

    @property
    def named(self) -> str:
        """The version as people write it; '' for an unknown one."""
        return ".".join(map(str, self.version or ()))


@dataclass(frozen=True, slots=True)
class StartProblem:
    """Why the kubelet ends, with key, value and place, and the edits after which it does not for this reason."""

    text: str
    edits: tuple[Edit, ...] = ()


def removal(settings: KubeletSettings, key: str) -> tuple[Edit, ...]:
    """Return the edits that take a key, or a mapping, away in each place that has it."""
    return tuple(edit_at(where, key, None) for where in settings.places(key))


def state_edit(settings: KubeletSettings, manager: str) -> Edit:
    """Return the edit that deletes a manager's state, which must have the policy that is configured."""
    return Edit(f"{settings.get(keys.ROOT_DIRECTORY).value}/{manager}_manager_state")


def listed(found: Sequence[Setting]) -> str:
    """Return settings with their places as a part of a sentence."""
    return " and ".join(f"{each.key}: {each.value} ({each.where or 'the default'})" for each in found)
