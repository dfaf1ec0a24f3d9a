"""Read the topology, and the request for CPUs."""

from typing import Final

from cri_proxy.kubelet.start_rules.options import BY_SOCKET, CPU_OPTIONS
from cri_proxy.yaml_fields import YamlField
from policies.hints import CpuProvider, Topology
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.documents.forms import FIELD, NODES, by_key, by_name, cpu_list, form, node_number, one_of, scalar
from sysfs.documents.table import Form, KeyRow, Table
from sysfs.quantity import parse_mcpu

_MCPU_PER_CPU = 1000


def _whole_cpus(text: str) -> int:
    """Return the CPUs of a request that is a whole number of them; 0 for others, which get none of their own.

    >>> _whole_cpus("2"), _whole_cpus("2000m"), _whole_cpus("1.5")
    (2, 2, 0)
    """
    mcpu = parse_mcpu(text)
    return 0 if mcpu % _MCPU_PER_CPU else mcpu // _MCPU_PER_CPU


def _nodes(field: YamlField, what: str) -> dict[int, int]:
    cpus: dict[int, int] = {}
    taken = 0
    for node, value in sorted(by_key(field, what, node_number).items()):
        cpus[node] = cpu_list(value, f"{what}.{node}").mask
        if cpus[node] & taken:
            raise value.refuse(f"{what}.{node}: CPUs {CpuSet(cpus[node] & taken)} are on another node as well")
        taken |= cpus[node]
    if not cpus:
        raise field.refuse(f"{what}: give at least one node")
    return cpus


_NO_NODES: Final = "give nodes: {NODE: CPU list}"
TOPOLOGY: Final = Table(
    lambda nodes, sockets=None: (nodes, sockets),
    KeyRow("nodes", form(_nodes), "the CPUs of each node, a list that may be empty", _NO_NODES),
    KeyRow("sockets", FIELD, "the nodes of each socket; left out: each node is one"),
)


def read_topology(field: YamlField) -> Topology:
    """Return the topology that ``nodes`` and ``sockets`` describe. Raises DocumentError."""
    cpus, sockets = TOPOLOGY.read(field, "topology")
    nodes = tuple(cpus.items())
    return Topology(
        nodes, tuple(1 << node for node in cpus) if sockets is None else _sockets(sockets, NodeSet.of(cpus))
    )


def _sockets(field: YamlField, machine: NodeSet) -> tuple[int, ...]:
    """Return the nodes of each socket; every node is in one."""
    found = tuple(by_name(NODES).read(field, "topology.sockets", machine.mask).values())
    if missing := machine - NodeSet.of_masks(found):
        raise field.refuse(f"topology.sockets: node {missing} is in no socket; add it, or leave sockets out")
    return found


def _cpus(field: YamlField, what: str, topology: Topology) -> int:
    mask, machine = cpu_list(field, what).mask, _machine(topology)
    if unknown := CpuSet(mask & ~machine):
        raise field.refuse(f"{what}: no node has CPU {unknown}; the nodes have {CpuSet(machine)}")
    return mask


def _is_aligned(field: YamlField, what: str, topology: Topology) -> bool:
    # The other options of the kubelet's static CPU policy change which CPUs are taken, not which hints there are.
    is_aligned = BY_SOCKET in [item.parsed(what, one_of(CPU_OPTIONS)) for item in field.items(what)]
    sockets, nodes = len(topology.cpu_sockets), len(topology.cpu_nodes)
    if is_aligned and sockets > nodes:
        raise field.refuse(
            f"{what}: {BY_SOCKET}: the kubelet refuses it with more sockets than NUMA nodes,"
            f" here {sockets} and {nodes}; leave it out"
        )
    return is_aligned


_CPUS: Final = Form(_cpus)
CPU: Final = Table(
    lambda **given: given,
    KeyRow("request", scalar(_whole_cpus), "how many; a part of a CPU asks for none", "give request: NUMBER"),
    KeyRow("free", _CPUS, "CPUs that may be assigned; left out: all"),
    KeyRow("allocated", _CPUS, "CPUs that the container holds; null: none yet"),
    KeyRow("reusable", _CPUS, "CPUs that its init containers leave"),
    KeyRow("options", Form(_is_aligned), "of the kubelet's static policy", field="is_socket_aligned"),
)


def read_cpu(field: YamlField, topology: Topology) -> CpuProvider:
    """Return the provider of CPUs that a document asks. Raises DocumentError."""
    given = CPU.read(field, "cpu", topology)
    free = given.pop("free", _machine(topology) & ~given.get("allocated", 0))
    return CpuProvider(topology, free=free, **given)


def _machine(topology: Topology) -> int:
    return CpuSet.of_masks(cpus for _, cpus in topology.cpus).mask
