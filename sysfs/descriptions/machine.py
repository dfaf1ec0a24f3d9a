"""Build a ``Machine`` from a short description: counts of packages, dies, nodes, cores, threads; and exceptions.

The keys are those of the command line's ``--machine`` and of scenarios: ``docs`` lists them, ``KEYS`` below names them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet, grouped
from sysfs.descriptions.memory import far_distances, huge_pages, memory_nodes
from sysfs.descriptions.pci import described_devices
from sysfs.errors import MachineSourceError
from sysfs.fields import Fields
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Cache, CoreKind, Machine

COUNTS = ("packages", "dies", "nodes", "cores", "threads")
DEVIATIONS = (
    *("numbering", "memory", "isolated", "offline", "efficiency", "distances", "l3"),
    *("memory_nodes", "hugepages", "pci"),
)
KEYS = (*COUNTS, *DEVIATIONS)
MAX_CPUS = 8192  # NR_CPUS of distribution kernels
MAX_NODES = 1024  # CONFIG_NODES_SHIFT=10
MAX_DISTANCE = 255
DEFAULT_MEMORY = "4Gi"
SAME_NODE, SAME_DIE, SAME_PACKAGE, REMOTE = 10, 11, 12, 21


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of one CPU; ``node`` and ``core`` are numbered through the whole machine."""

    package: int
    die: int
    node: int
    core: int


def describe(description: Mapping[str, object]) -> Machine:
    """Return the described machine. Raises MachineSourceError that names the key, its value and the remedy.

    >>> machine = describe({"packages": 2, "cores": 2, "threads": 2, "numbering": "split", "memory": "2Gi"})
    >>> [str(core.cpus) for core in machine.cores]
    ['0,4', '1,5', '2,6', '3,7']
    """
    fields = Fields(description, KEYS)
    places = _places(fields)
    count = len(places)
    offline = fields.cpus("offline", count)
    online = CpuSet.of(range(count)) - offline
    if not online:
        raise fields.refuse("offline", "leave at least one CPU online")
    nodes = _nodes(fields, places, online)
    cpus, caches = _cpus(fields, places, online), _caches(fields, places, online)
    devices = described_devices(fields, nodes, online)
    return assemble(MachineFacts(cpus, nodes, caches, devices, offline, fields.cpus("isolated", count)))


def _places(fields: Fields) -> list[_Place]:
    """Return the location of every CPU, by CPU number."""
    packages, dies, nodes, cores, threads = (fields.integer(key, 1, 1, MAX_CPUS) for key in COUNTS)
    node_count = packages * dies * nodes
    for factors, count, unit, most in (
        (COUNTS, node_count * cores * threads, "CPUs", MAX_CPUS),
        (COUNTS[:3], node_count, "nodes", MAX_NODES),
    ):
        if count > most:
            raise MachineSourceError("description", f"{' x '.join(factors)} is {count} {unit}; the most is {most}")
    linear = [
        _Place(p, d, (p * dies + d) * nodes + n, ((p * dies + d) * nodes + n) * cores + c)
        for p, d, n, c in product(range(packages), range(dies), range(nodes), range(cores))
    ]
    if fields.word("numbering", "linear", ("linear", "split")) == "split":
        return linear * threads
    return [place for place in linear for _ in range(threads)]


def _cpus(fields: Fields, places: Sequence[_Place], online: CpuSet) -> list[CpuFacts]:
    efficient = fields.cpus("efficiency", len(places))
    siblings = grouped((places[cpu].core, cpu) for cpu in online)
    lowest: dict[int, int] = {}  # first core by package: core_id restarts in each
    for place in places:
        lowest[place.package] = min(lowest.get(place.package, place.core), place.core)
    found = []
    for cpu in online:
        place = places[cpu]
        kind = CoreKind.EFFICIENCY if cpu in efficient else CoreKind.PERFORMANCE
        core_id = place.core - lowest[place.package]
        found.append(CpuFacts(cpu, place.package, place.die, core_id, siblings[place.core], kind))
    return found


def _nodes(fields: Fields, places: Sequence[_Place], online: CpuSet) -> list[NodeFacts]:
    """Return the nodes with CPUs, then the memory-only ones."""
    homes = {place.node: place for place in places}
    cpus = grouped((places[cpu].node, cpu) for cpu in online)
    memory = [MemoryFacts(memory_bytes) for memory_bytes in _memory(fields, len(homes))]
    far = memory_nodes(fields, len(homes))
    if len(homes) + len(far) > MAX_NODES:
        raise fields.refuse("memory_nodes", f"a machine has at most {MAX_NODES} nodes")
    near = [[_distance(homes[a], homes[b]) for b in sorted(homes)] for a in sorted(homes)]
    rows = _matrix(fields, near, [node.near for node in far])
    facts = [*memory, *(node.memory for node in far)]
    pages = huge_pages(fields, len(homes), [one.memory_bytes for one in facts])
    return [
        NodeFacts(node, cpus.get(node, CpuSet()), one, tuple(enumerate(rows[node])), pages[node])
        for node, one in enumerate(facts)
    ]


def _distance(a: _Place, b: _Place) -> int:
    if a.node == b.node:
        return SAME_NODE
    if a.package != b.package:
        return REMOTE
    return SAME_DIE if a.die == b.die else SAME_PACKAGE


def _memory(fields: Fields, nodes: int) -> list[int]:
    """Return the bytes of each node with CPUs, given one quantity for all or a list."""
    value = fields.raw("memory")
    if not isinstance(value, list | tuple):
        return [fields.quantity("memory", DEFAULT_MEMORY if value is None else value)] * nodes
    if len(value) != nodes:
        raise fields.refuse("memory", f"give one quantity, or a list of {nodes}: one per node")
    return [fields.quantity("memory", item) for item in value]


def _matrix(
    fields: Fields, default: Sequence[Sequence[int]], near: Sequence[Mapping[int, int]]
) -> Sequence[Sequence[int]]:
    """Return the distance matrix of all nodes.

    ``distances`` may give it whole, or between the nodes with CPUs only (as ``default`` does); memory nodes are then
    added by their ``near``.
    """
    if "distances" not in fields:
        return far_distances(fields, default, near)
    rows = fields.items("distances")
    remedy = f"give a square matrix of {len(default)} (or, with the memory nodes, {len(default) + len(near)}) rows"
    if len(rows) not in {len(default), len(default) + len(near)}:
        raise fields.refuse("distances", remedy)
    matrix: list[list[int]] = []
    for i, row in enumerate(rows):
        if not isinstance(row, list | tuple) or len(row) != len(rows):
            raise fields.refuse("distances", remedy)
        if not all(isinstance(d, int) and not isinstance(d, bool) and SAME_NODE <= d <= MAX_DISTANCE for d in row):
            raise fields.refuse("distances", f"give whole numbers from {SAME_NODE} to {MAX_DISTANCE}")
        if row[i] != SAME_NODE:
            raise fields.refuse("distances", f"the distance of a node to itself is {SAME_NODE}")
        matrix.append(list(row))
    return matrix if len(matrix) > len(default) else far_distances(fields, matrix, near)


def _caches(fields: Fields, places: Sequence[_Place], online: CpuSet) -> list[Cache]:
    """Return one L2 per core, and the L3 as described or one per die."""
    cores = grouped((places[cpu].core, cpu) for cpu in online)
    if "l3" not in fields:
        shared = list(grouped(((places[cpu].package, places[cpu].die), cpu) for cpu in online).values())
    else:
        shared = [fields.cpu_list("l3", item, len(places)) for item in fields.items("l3")]
        if sum(len(cpus) for cpus in shared) > len(CpuSet.of(cpu for cpus in shared for cpu in cpus)):
            raise fields.refuse("l3", "give lists that have no CPU in common")
    last_level = [Cache(3, cpus & online) for cpus in shared if cpus & online]
    return [*(Cache(2, cpus) for cpus in cores.values()), *last_level]
