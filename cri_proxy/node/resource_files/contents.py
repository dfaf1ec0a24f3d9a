"""What a container is told of its resources, and the two files that say so (pure).

``resources.sh`` can be sourced by any POSIX shell and always has all of its variables; ``resources.json`` has the
same facts and a few more. Names of the variables: user guide of the policy (seed), kept so that programs can move.
"""

import json
from dataclasses import dataclass
from typing import TypeVar

from policies.base import CpuKind, Grant, Pinning
from sysfs.cpuset import CpuSet, IdSet, NodeSet
from sysfs.model import Machine, MemoryKind

VERSION = 1
Ids = TypeVar("Ids", bound=IdSet)


@dataclass(frozen=True, slots=True)
class Facts:
    """The resources of one container. CPUs of ``exclusive`` and ``isolated`` are its own, ``shared`` are not.

    ``hidden`` are its own too, and it does not run on them: the thread siblings of hyperthreads ``hide``. The
    three kinds of memory nodes together are ``mems``.
    """

    pool: str
    kind: str
    shared: CpuSet
    isolated: CpuSet
    exclusive: CpuSet
    hidden: CpuSet
    shared_mcpu: int
    mems: NodeSet
    dram: NodeSet
    pmem: NodeSet
    hbm: NodeSet


@dataclass(frozen=True, slots=True)
class Ground:
    """What of a machine goes into facts: made once for a machine, because facts are made often."""

    online: CpuSet
    memory_nodes: NodeSet
    dram: NodeSet
    pmem: NodeSet
    hbm: NodeSet


def ground_of(machine: Machine) -> Ground:
    """The ground of this machine."""
    dram, pmem, hbm = (
        NodeSet.of(node.id for node in machine.nodes if node.kind is kind)
        for kind in (MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM)
    )
    return Ground(machine.online, machine.memory_nodes, dram, pmem, hbm)


def facts_of(grant: Grant, wanted: Pinning, confirmed: Pinning | None, ground: Ground) -> Facts:
    """What to tell a container with this grant.

    ``wanted`` follows from all grants, ``confirmed`` is what the runtime has acknowledged (None: nothing yet). Growth
    is told once it is confirmed; what is about to be taken away is told at once. Where a set is not ours to write,
    the container can use what its own set allows, or the whole machine.
    """
    cpus = _present(wanted.cpus, confirmed.cpus if confirmed is not None else None) or ground.online
    mems = _present(wanted.mems, confirmed.mems if confirmed is not None else None) or ground.memory_nodes
    exclusive, isolated, hidden = grant.exclusive, grant.isolated, CpuSet()
    if wanted.cpus is not None:
        exclusive, isolated, hidden = exclusive & cpus, isolated & cpus, grant.owned - wanted.cpus
    return Facts(
        pool=grant.pool,
        kind=grant.kind.value,
        shared=CpuSet() if grant.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED) else cpus - grant.owned,
        isolated=isolated,
        exclusive=exclusive,
        hidden=hidden,
        shared_mcpu=grant.shared_mcpu,
        mems=mems,
        dram=mems & ground.dram,
        pmem=mems & ground.pmem,
        hbm=mems & ground.hbm,
    )


def unpinned_facts(pinning: Pinning, ground: Ground) -> Facts:
    """What to tell a container that nobody places any more (``reset``): all that it has is shared."""
    mems, none = pinning.mems or ground.memory_nodes, CpuSet()
    return Facts(
        pool="",
        kind=CpuKind.PRESERVE.value,
        shared=pinning.cpus or ground.online,
        isolated=none,
        exclusive=none,
        hidden=none,
        shared_mcpu=0,
        mems=mems,
        dram=mems & ground.dram,
        pmem=mems & ground.pmem,
        hbm=mems & ground.hbm,
    )


def _present(wanted: Ids | None, confirmed: Ids | None) -> Ids | None:
    """What the container has now and keeps; None when nobody has set anything. A move is told when it is done."""
    if wanted is None or confirmed is None:
        return wanted or confirmed
    return wanted & confirmed or confirmed


def as_shell(facts: Facts) -> str:
    """``resources.sh``: CPU and node lists in the kernel's format (cpuset(7)), so nothing in them needs quoting."""
    lists = {
        "SHARED_CPUS": facts.shared,
        "ISOLATED_CPUS": facts.isolated,
        "EXCLUSIVE_CPUS": facts.exclusive,
        "ALL_MEMS": facts.mems,
        "DRAM_MEMS": facts.dram,
        "PMEM_MEMS": facts.pmem,
        "HBM_MEMS": facts.hbm,
    }
    return "".join(f'{name}="{ids}"\n' for name, ids in lists.items())


def as_json(facts: Facts, generation: int) -> str:
    """``resources.json``: one object; ``generation`` ascends with every change, so that readers can compare."""
    plain: dict[str, object] = {
        "version": VERSION,
        "generation": generation,
        "pool": facts.pool,
        "kind": facts.kind,
        "shared_cpus": str(facts.shared),
        "isolated_cpus": str(facts.isolated),
        "exclusive_cpus": str(facts.exclusive),
        "hidden_cpus": str(facts.hidden),
        "shared_mcpu": facts.shared_mcpu,
        "all_mems": str(facts.mems),
        "dram_mems": str(facts.dram),
        "pmem_mems": str(facts.pmem),
        "hbm_mems": str(facts.hbm),
    }
    return json.dumps(plain, indent=2) + "\n"


def generation_in(text: str) -> int:
    """The generation that a ``resources.json`` tells; 0 for one that cannot be read."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    generation = plain.get("generation") if isinstance(plain, dict) else None
    return generation if isinstance(generation, int) and not isinstance(generation, bool) and generation > 0 else 0
