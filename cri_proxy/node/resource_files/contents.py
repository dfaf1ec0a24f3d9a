"""Compute the text of a container's resources.sh and resources.json from its grant, wanted and confirmed pinning.

``resources.sh`` can be sourced by any POSIX shell and always has all of its variables; ``resources.json`` has the same
and a few more. The variables have the names that cri-resource-manager gave them, so that programs can move.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from policies.base import CpuKind, Grant, Pinning
from policies.device_grants import device_words
from sysfs.cpuset import CpuSet, IdSet, NodeSet
from sysfs.model import Machine, MemoryKind

VERSION = 1
_UNQUOTED = re.compile(r'["$`\\]')  # special between double quotes (POSIX shell, 2.2.3)
Ids = TypeVar("Ids", bound=IdSet)


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The resources of one container, by their names in ``resources.json``.

    CPUs of ``exclusive_cpus`` and ``isolated_cpus`` are its own, ``shared_cpus`` are not. ``hidden_cpus`` are its own
    too, but it does not run on them: the thread siblings of hyperthreads ``hide``. ``all_mems`` are the memory nodes
    of all three kinds. ``devices`` are as ``device_words`` names them.
    """

    pool: str
    kind: str
    shared_cpus: CpuSet
    isolated_cpus: CpuSet
    exclusive_cpus: CpuSet
    hidden_cpus: CpuSet
    shared_mcpu: int
    all_mems: NodeSet
    dram_mems: NodeSet
    pmem_mems: NodeSet
    hbm_mems: NodeSet
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineSets:
    """The CPUs and memory nodes of a machine, computed once because container resources are computed often."""

    online: CpuSet
    memory_nodes: NodeSet
    kinds: Mapping[str, NodeSet]

    def by_kind(self, mems: NodeSet) -> dict[str, NodeSet]:
        """Return these memory nodes as the fields of ``ContainerResources``: all, and those of each kind."""
        return {"all_mems": mems} | {f"{kind}_mems": mems & nodes for kind, nodes in self.kinds.items()}


def machine_sets(machine: Machine) -> MachineSets:
    """Return the sets of this machine."""
    kinds = {kind.value: NodeSet.of(node.id for node in machine.nodes if node.kind is kind) for kind in MemoryKind}
    return MachineSets(machine.online, machine.memory_nodes, kinds)


def resources_of(grant: Grant, wanted: Pinning, confirmed: Pinning | None, sets: MachineSets) -> ContainerResources:
    """Return the resources of a container with this grant.

    ``wanted`` follows from all grants, ``confirmed`` is what the runtime has acknowledged (None: nothing yet). CPUs
    that come are listed once they are confirmed, CPUs that go at once. Where a set is not ours to write, the container
    has what its own set allows, or the whole machine.
    """
    cpus = _present(wanted.cpus, confirmed.cpus if confirmed is not None else None) or sets.online
    mems = _present(wanted.mems, confirmed.mems if confirmed is not None else None) or sets.memory_nodes
    exclusive, isolated, hidden = grant.exclusive, grant.isolated, CpuSet()
    if wanted.cpus is not None:
        exclusive, isolated, hidden = exclusive & cpus, isolated & cpus, grant.owned - wanted.cpus
    return ContainerResources(
        grant.pool,
        grant.kind.value,
        shared_cpus=CpuSet() if grant.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED) else cpus - grant.owned,
        isolated_cpus=isolated,
        exclusive_cpus=exclusive,
        hidden_cpus=hidden,
        shared_mcpu=grant.shared_mcpu,
        **sets.by_kind(mems),
        devices=device_words(grant.devices),
    )


def unpinned_resources(pinning: Pinning, sets: MachineSets, devices: tuple[str, ...] = ()) -> ContainerResources:
    """Return the resources of a container after ``reset``: all its CPUs and memory are shared, its devices stay."""
    none, shared, mems = CpuSet(), pinning.cpus or sets.online, pinning.mems or sets.memory_nodes
    kind, by_kind = CpuKind.PRESERVE.value, sets.by_kind(mems)
    return ContainerResources("", kind, shared, none, none, none, 0, **by_kind, devices=devices)


def _present(wanted: Ids | None, confirmed: Ids | None) -> Ids | None:
    """Return the set that the container has now and keeps; None when neither set is known."""
    if wanted is None or confirmed is None:
        return wanted or confirmed
    return wanted & confirmed or confirmed  # a complete move is listed once it is confirmed


def as_shell(resources: ContainerResources) -> str:
    """Return ``resources.sh``: lists in the kernel's format (cpuset(7)), which need no quoting, then devices."""
    names = ("shared_cpus", "isolated_cpus", "exclusive_cpus", "all_mems", "dram_mems", "pmem_mems", "hbm_mems")
    sets = "".join(f'{name.upper()}="{getattr(resources, name)}"\n' for name in names)
    devices = _UNQUOTED.sub(r"\\\g<0>", ",".join(resources.devices))
    return f'{sets}DEVICES="{devices}"\n'


def as_json(resources: ContainerResources, generation: int) -> str:
    """Return ``resources.json``: one object; ``generation`` ascends with every change, so that readers can compare."""
    values = ((f.name, getattr(resources, f.name)) for f in fields(resources))
    plain = {name: value if isinstance(value, str | int | tuple) else str(value) for name, value in values}
    return json.dumps({"version": VERSION, "generation": generation} | plain, indent=2) + "\n"


def generation_in(text: str) -> int:
    """Return the generation in a ``resources.json``; 0 for one that cannot be read."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        # RecursionError: nested thousands deep, for which ``json`` has no bound of its own.
        return 0
    generation = plain.get("generation") if isinstance(plain, dict) else None
    return generation if isinstance(generation, int) and not isinstance(generation, bool) and generation > 0 else 0
