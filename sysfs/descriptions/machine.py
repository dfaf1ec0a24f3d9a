"""Build a ``Machine`` from a short description: counts of packages, dies, nodes, cores, threads; and exceptions.

The keys are those of the command line's ``--machine`` and of scenarios: ``docs`` lists them, ``KEYS`` below names them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet, grouped
from sysfs.descriptions.memory import MEMORY_NODE, FarMemory, far_distances, huge_pages, page_counts, quantity
from sysfs.documents.forms import TRUTH, cpu_list, each, form, integer, one_of, scalar
from sysfs.documents.table import Table, keyed
from sysfs.documents.value import DocumentValue
from sysfs.errors import MachineSourceError
from sysfs.gpu_partitions import is_partition
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Cache, CoreKind, Device, Machine
from sysfs.pci import parse_address

MAX_CPUS = 8192  # NR_CPUS of distribution kernels
MAX_NODES = 1024  # CONFIG_NODES_SHIFT=10
MAX_DISTANCE = 255
MAX_CODE = 0xFFFFFF
DEFAULT_MEMORY_BYTES = 4 << 30
SAME_NODE, SAME_DIE, SAME_PACKAGE, REMOTE = 10, 11, 12, 21


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of one CPU; ``node`` and ``core`` are numbered through the whole machine."""

    package: int
    die: int
    node: int
    core: int


def _memory(value: DocumentValue, what: str) -> int | Sequence[int]:
    """Return the bytes of every node, or of one node after the other."""
    return tuple(quantity(item, what) for item in value.items(what)) if value.is_list else quantity(value, what)


_COUNT, _CPUS = integer(1, MAX_CPUS), form(cpu_list)
_PAGES = form(page_counts)
_ROWS = each(each(integer(SAME_NODE, MAX_DISTANCE)))


def _code(value: DocumentValue, what: str) -> int:
    """Return a class, vendor or device code, given as a number or as hexadecimal text like that of sysfs."""
    code = value.plain()
    if isinstance(code, str):
        try:
            code = int(code, 16)
        except ValueError:
            code = -1
    # YAML's true is an int to Python.
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= MAX_CODE:
        raise value.refuse(f"{what}: expected a hexadecimal code like 0x030200, got {value.shown()}")
    return code


def _partition(text: str) -> str:
    if not is_partition(text):
        raise ValueError(f"expected the name of a partition like amdgpu_xcp_1, got {text[:40]!r}")
    return text


_ADDRESS, _CODE = scalar(parse_address), form(_code)
_PARTITION = scalar(_partition)
_NO_ADDRESS = "address is missing; give one like 0000:3b:00.0"


@dataclass(frozen=True, slots=True)
class _ListedDevice:
    """A device as described; None and '' are not given."""

    address: str = keyed(_ADDRESS, "the domain may be left out", missing=_NO_ADDRESS)
    class_code: int = keyed(_CODE, "PCI code, hexadecimal", 0, name="class")
    node: int | None = keyed(integer(-1, 1023), "left out: its parent's; -1: unknown", None)
    parent: str = keyed(_ADDRESS, "another listed device, or a bridge", "")
    vendor: int = keyed(_CODE, "PCI code", 0)
    device: int = keyed(_CODE, "PCI code", 0)
    physical_function: str = keyed(_ADDRESS, "of a virtual function", "")
    has_rdma: bool = keyed(TRUTH, "true: its driver gives it verbs, as RDMA needs", False, name="rdma")
    partitions: Sequence[str] = keyed(
        each(_PARTITION), "of a GPU of AMD's, but the first: names like `amdgpu_xcp_1`", ()
    )


DEVICE = Table(_ListedDevice)


@dataclass(frozen=True, slots=True)
class _Described:
    """The content of a description."""

    packages: int = keyed(_COUNT, "how many; default 1, as of the next four", 1)
    dies: int = keyed(_COUNT, "in each package", 1)
    nodes: int = keyed(_COUNT, "NUMA nodes in each die", 1)
    cores: int = keyed(_COUNT, "in each node", 1)
    threads: int = keyed(_COUNT, "of each core", 1)
    numbering: str = keyed(scalar(one_of(("linear", "split"))), "split: first threads first, as on x86", "linear")
    memory: int | Sequence[int] = keyed(
        form(_memory), "of each node, `4Gi` by default; or a list, one for each", DEFAULT_MEMORY_BYTES
    )
    memory_nodes: Sequence[FarMemory] = keyed(each(MEMORY_NODE), "nodes without CPUs", ())
    hugepages: Mapping[int, int | Sequence[int]] | None = keyed(
        _PAGES, "`{2Mi: 512, 1Gi: [4, 0]}`: pages of each node, or one after the other", None
    )
    distances: Sequence[Sequence[int]] | None = keyed(_ROWS, "of each node to all, in rows", None)
    efficiency: CpuSet = keyed(_CPUS, "CPUs of efficiency cores", CpuSet())
    l3: Sequence[CpuSet] | None = keyed(each(_CPUS), "the CPUs of each L3; left out: one for each die", None)
    isolated: CpuSet = keyed(_CPUS, "CPUs that the kernel isolates", CpuSet())
    offline: CpuSet = keyed(_CPUS, "CPUs that are offline", CpuSet())
    pci: Sequence[_ListedDevice] = keyed(each(DEVICE), "PCI devices", ())

    def places(self) -> list[_Place]:
        """Return the location of every CPU, by CPU number. Raises ValueError."""
        dies, nodes, cores = self.dies, self.nodes, self.cores
        node_count = self.packages * dies * nodes
        for factors, count, unit, most in (
            ("packages x dies x nodes x cores x threads", node_count * cores * self.threads, "CPUs", MAX_CPUS),
            ("packages x dies x nodes", node_count, "nodes", MAX_NODES),
        ):
            if count > most:
                raise ValueError(f"{factors} is {count} {unit}; the most is {most}")
        linear = [
            _Place(p, d, (p * dies + d) * nodes + n, ((p * dies + d) * nodes + n) * cores + c)
            for p, d, n, c in product(range(self.packages), range(dies), range(nodes), range(cores))
        ]
        places = (
            linear * self.threads if self.numbering == "split" else [p for p in linear for _ in range(self.threads)]
        )
        for key in ("efficiency", "l3", "isolated", "offline"):
            listed = getattr(self, key) or ()
            for cpus in [listed] if isinstance(listed, CpuSet) else listed:
                if cpus.mask >> len(places):
                    raise ValueError(f"{key}: expected CPUs from 0 to {len(places) - 1}, got {cpus}")
        return places


DESCRIPTION = Table(_Described, name="the description")
KEYS = tuple(DESCRIPTION.keys)


def _refusal(problem: str) -> MachineSourceError:
    return MachineSourceError("description", problem)


def describe(description: Mapping[str, object]) -> Machine:
    """Return the described machine. Raises MachineSourceError that names the key, its value and the remedy.

    >>> machine = describe({"packages": 2, "cores": 2, "threads": 2, "numbering": "split", "memory": "2Gi"})
    >>> [str(core.cpus) for core in machine.cores]
    ['0,4', '1,5', '2,6', '3,7']
    """
    given = DESCRIPTION.read(DocumentValue(description, _refusal))
    try:
        places = given.places()
        online = CpuSet.of(range(len(places))) - given.offline
        if not online:
            raise ValueError("offline: leave at least one CPU online")
        nodes = _nodes(given, places, online)
        cpus, caches = _cpus(given, places, online), _caches(given, places, online)
        devices = _devices(given.pci, nodes, online)
    except ValueError as error:
        raise _refusal(str(error)) from None
    return assemble(MachineFacts(cpus, nodes, caches, devices, given.offline, given.isolated))


def _cpus(given: _Described, places: Sequence[_Place], online: CpuSet) -> list[CpuFacts]:
    siblings = grouped((places[cpu].core, cpu) for cpu in online)
    lowest: dict[int, int] = {}  # first core by package: core_id restarts in each
    for place in places:
        lowest[place.package] = min(lowest.get(place.package, place.core), place.core)
    found = []
    for cpu in online:
        place = places[cpu]
        kind = CoreKind.EFFICIENCY if cpu in given.efficiency else CoreKind.PERFORMANCE
        core_id = place.core - lowest[place.package]
        found.append(CpuFacts(cpu, place.package, place.die, core_id, siblings[place.core], kind))
    return found


def _nodes(given: _Described, places: Sequence[_Place], online: CpuSet) -> list[NodeFacts]:
    """Return the nodes with CPUs, then the memory-only ones. Raises ValueError."""
    homes = {place.node: place for place in places}
    cpus = grouped((places[cpu].node, cpu) for cpu in online)
    far = given.memory_nodes
    if len(homes) + len(far) > MAX_NODES:
        raise ValueError(f"memory_nodes: a machine has at most {MAX_NODES} nodes")
    memory = [given.memory] * len(homes) if isinstance(given.memory, int) else given.memory
    if len(memory) != len(homes):
        raise ValueError(f"memory: give one quantity, or a list of {len(homes)}: one per node")
    near = [[_distance(homes[a], homes[b]) for b in sorted(homes)] for a in sorted(homes)]
    rows = _matrix(given.distances, near, [node.near for node in far])
    facts = [*map(MemoryFacts, memory), *(node.memory for node in far)]
    pages = huge_pages(given.hugepages or {}, len(homes), [one.memory_bytes for one in facts])
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


def _matrix(
    given: Sequence[Sequence[int]] | None, default: Sequence[Sequence[int]], near: Sequence[Mapping[int, int]]
) -> Sequence[Sequence[int]]:
    """Return the distance matrix of all nodes. Raises ValueError.

    ``given`` may have it whole, or between the nodes with CPUs only (as ``default`` does); memory nodes are then
    added by their ``near``.
    """
    if given is None:
        return far_distances(default, near)
    sizes = {len(default), len(default) + len(near)}
    if len(given) not in sizes or any(len(row) != len(given) for row in given):
        remedy = f"{len(default)} (or, with the memory nodes, {len(default) + len(near)}) rows"
        raise ValueError(f"distances: give a square matrix of {remedy}")
    if any(row[i] != SAME_NODE for i, row in enumerate(given)):
        raise ValueError(f"distances: the distance of a node to itself is {SAME_NODE}")
    return given if len(given) > len(default) else far_distances(given, near)


def _caches(given: _Described, places: Sequence[_Place], online: CpuSet) -> list[Cache]:
    """Return one L2 per core, and the L3 as described or one per die. Raises ValueError."""
    cores = grouped((places[cpu].core, cpu) for cpu in online)
    shared = given.l3
    if shared is None:
        shared = list(grouped(((places[cpu].package, places[cpu].die), cpu) for cpu in online).values())
    elif sum(map(len, shared)) > len(CpuSet.of_masks(cpus.mask for cpus in shared)):
        raise ValueError("l3: give lists that have no CPU in common")
    last_level = [Cache(3, cpus & online) for cpus in shared if cpus & online]
    return [*(Cache(2, cpus) for cpus in cores.values()), *last_level]


def _devices(listed: Iterable[_ListedDevice], nodes: Sequence[NodeFacts], online: CpuSet) -> list[Device]:
    """Return the devices of the key ``pci``. A parent may be another listed device or an unlisted bridge.

    A device without ``node`` inherits its parent's, as in the kernel. Raises ValueError.
    """
    items: dict[str, _ListedDevice] = {}
    for item in listed:
        if items.setdefault(item.address, item) is not item:
            raise ValueError(f"pci: {item.address}: give every device a unique address")
    names = [name for item in items.values() for name in item.partitions]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), ""):
        raise ValueError(f"pci: {twice}: give every partition a unique name")
    return [_device(items[address], items, nodes, online) for address in sorted(items)]


def _device(
    item: _ListedDevice, items: Mapping[str, _ListedDevice], nodes: Sequence[NodeFacts], online: CpuSet
) -> Device:
    bridges = _bridges(item.address, items)
    holders = [items[address] for address in (item.address, *reversed(bridges)) if address in items]
    node = next((holder.node for holder in holders if holder.node is not None), -1)
    if node >= len(nodes):
        raise ValueError(f"pci: {item.address}: there is no node {node}; the nodes are 0 to {len(nodes) - 1}")
    codes = (item.class_code, item.vendor, item.device)
    # As the kernel has it: without a node, all CPUs are local.
    local_cpus = online if node < 0 else nodes[node].cpus
    return Device(
        item.address,
        *codes,
        node,
        local_cpus,
        bridges,
        item.physical_function,
        item.has_rdma,
        tuple(item.partitions),
    )


def _bridges(address: str, items: Mapping[str, _ListedDevice]) -> tuple[str, ...]:
    """Return the path from the host bridge, named after the topmost bus, to the parent."""
    path = [address]
    while path[-1] in items and (parent := items[path[-1]].parent):
        if parent in path:
            raise ValueError(f"pci: {path[-1]}: a device cannot be its own ancestor")
        path.append(parent)
    return (f"pci{path[-1].rpartition(':')[0]}", *reversed(path[1:]))
