"""Read the topology, and the request for CPUs."""

from typing import Final

from cri_proxy.cli.hint_requests.values import by_key, cpu_mask, given, names, node_mask, node_number
from cri_proxy.yaml_fields import YamlField
from policies.hints.cpu import CpuProvider, Topology
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.quantity import parse_mcpu

ALIGN_BY_SOCKET: Final = "align-by-socket"
# Options of the kubelet's static CPU policy. The others change which CPUs are taken, not which hints there are.
CPU_OPTIONS: Final = (
    ALIGN_BY_SOCKET,
    "distribute-cpus-across-cores",
    "distribute-cpus-across-numa",
    "full-pcpus-only",
    "prefer-align-cpus-by-uncorecache",
    "strict-cpu-reservation",
)
_KEYS = ("request", "free", "allocated", "reusable", "options")
_MCPU_PER_CPU = 1000


def read_topology(field: YamlField) -> Topology:
    """Return the topology that ``nodes`` and ``sockets`` describe. Raises DocumentError."""
    fields = given(field.mapping(("nodes", "sockets"), "topology"))
    if "nodes" not in fields:
        raise field.refuse("topology: give nodes: {NODE: CPU list}")
    cpus: dict[int, int] = {}
    taken = 0
    for node, value in sorted(by_key(fields["nodes"], "topology.nodes", node_number).items()):
        cpus[node] = cpu_mask(value, f"topology.nodes.{node}")
        if cpus[node] & taken:
            raise value.refuse(f"topology.nodes.{node}: CPUs {CpuSet(cpus[node] & taken)} are on another node as well")
        taken |= cpus[node]
    if not cpus:
        raise fields["nodes"].refuse("topology.nodes: give at least one node")
    if "sockets" not in fields:
        return Topology(tuple(cpus.items()), tuple(1 << node for node in cpus))
    return Topology(tuple(cpus.items()), _sockets(fields["sockets"], NodeSet.of(cpus)))


def _sockets(field: YamlField, machine: NodeSet) -> tuple[int, ...]:
    """Return the nodes of each socket; every node is in one."""
    entries = field.entries("topology.sockets")
    found = [node_mask(value, f"topology.sockets.{key}", machine.mask) for key, value in entries.items()]
    missing = machine - NodeSet.of_masks(found)
    if missing:
        raise field.refuse(f"topology.sockets: node {missing} is in no socket; add it, or leave sockets out")
    return tuple(found)


def read_cpu(field: YamlField, topology: Topology) -> CpuProvider:
    """Return the provider of CPUs that a document asks. Raises DocumentError."""
    fields = given(field.mapping(_KEYS, "cpu"))
    if "request" not in fields:
        raise field.refuse("cpu: give request: NUMBER")
    machine = CpuSet.of_masks(cpus for _, cpus in topology.cpus).mask
    sets: dict[str, int] = {}
    for key in ("free", "allocated", "reusable"):
        if key in fields:
            sets[key] = cpu_mask(fields[key], f"cpu.{key}")
            unknown = CpuSet(sets[key] & ~machine)
            if unknown:
                raise fields[key].refuse(f"cpu.{key}: no node has CPU {unknown}; the nodes have {CpuSet(machine)}")
    return CpuProvider(
        topology,
        fields["request"].parsed("cpu.request", _whole_cpus),
        sets.get("free", machine & ~sets.get("allocated", 0)),
        sets.get("reusable", 0),
        sets.get("allocated"),
        is_socket_aligned=ALIGN_BY_SOCKET in _options(fields.get("options"), topology),
    )


def _options(field: YamlField | None, topology: Topology) -> tuple[str, ...]:
    options = names(field, "cpu.options")
    if field is None:
        return options
    for option in options:
        if option not in CPU_OPTIONS:
            raise field.refuse(f"cpu.options: unknown option {option!r}; known are {', '.join(CPU_OPTIONS)}")
    sockets, nodes = len(topology.cpu_sockets), len(topology.cpu_nodes)
    if ALIGN_BY_SOCKET in options and sockets > nodes:
        raise field.refuse(
            f"cpu.options: {ALIGN_BY_SOCKET}: the kubelet refuses it with more sockets than NUMA nodes,"
            f" here {sockets} and {nodes}; leave it out"
        )
    return options


def _whole_cpus(text: str) -> int:
    """Return the CPUs of a request that is a whole number of them; 0 for others, which get none of their own.

    >>> _whole_cpus("2"), _whole_cpus("2000m"), _whole_cpus("1.5")
    (2, 2, 0)
    """
    mcpu = parse_mcpu(text)
    return 0 if mcpu % _MCPU_PER_CPU else mcpu // _MCPU_PER_CPU
