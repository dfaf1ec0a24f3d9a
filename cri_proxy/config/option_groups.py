"""Groups of the daemon's options as frozen dataclasses: thread counts, log, topology manager, cost files."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cri_proxy.config import addresses
from cri_proxy.config.thread_variables import MAX_VARIABLES, VARIABLES, variable_name
from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.devices.costs import Missing, Normalize
from policies.hints import KUBELET_NODES
from policies.options import Option
from policies.thread_counts import ThreadCounts


@dataclass(frozen=True, slots=True)
class ThreadCountOptions:
    """Variables with a thread count in the environment of new containers."""

    source: Annotated[
        ThreadCounts,
        Option(
            "from",
            "Set thread counts in the environment of new containers, unless an annotation does. owned: to the number "
            "of exclusive CPUs, where there are any; request: to the CPU request, rounded up; none: set none",
        ),
    ] = ThreadCounts.NONE
    variables: Annotated[
        tuple[str, ...],
        Option(
            "variables",
            "The variables to set. One that the pod sets itself stays; one of the image is replaced",
            values=f"a list of at most {MAX_VARIABLES} names",
            read=variable_name,
        ),
    ] = VARIABLES


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The events that are logged, and the form of the log."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Option("level", "The least that is logged; debug: every decision as a whole"),
    ] = "info"
    format: Annotated[
        Literal["auto", "json", "console"],
        Option("format", "auto: coloured lines on a terminal, else a JSON object per line"),
    ] = "auto"


@dataclass(frozen=True, slots=True)
class TopologyManager(TopologyOptions):
    """Merging of topology hints, as the kubelet's Topology Manager does it."""

    policy: Annotated[
        TopologyPolicy,
        Option(
            "policy",
            "Keep the CPUs, memory and devices of a container on the same NUMA nodes, unless an annotation decides. "
            "best-effort: on the best there are; restricted: refuse it unless every resource prefers them; "
            "single-numa-node: refuse it unless one node has everything; none: merge no hints",
        ),
    ] = TopologyPolicy.NONE
    scope: Annotated[
        TopologyScope,
        Option(
            "scope",
            "Merge topology hints for each container, or for the pod as a whole, unless an annotation decides",
        ),
    ] = TopologyScope.CONTAINER
    prefers_closest: Annotated[
        bool,
        Option(
            "prefer-closest-numa-nodes",
            "Of sets of as many NUMA nodes, take those with the smallest distances between them",
        ),
    ] = False
    most_nodes: Annotated[
        int,
        Option(
            "max-allowable-numa-nodes",
            "On a machine of more NUMA nodes a configuration with a topology policy is not valid, as in the kubelet. "
            "0: no limit",
            unit="NUMA nodes",
            least=KUBELET_NODES,  # the kubelet's option takes no number below either
            is_zero_off=True,
        ),
    ] = 0
    prefers_chosen_sets: Annotated[
        bool,
        Option(
            "preferred-allocation-hints",
            "Of the devices that annotations ask for, hints prefer the NUMA nodes of the cheapest set, not the fewest",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Cost files, and how they are read together."""

    directory: Annotated[
        str,
        Option(
            "dir",
            "The directory of the cost files, which list devices that containers can ask for; '' for none",
            values="a directory, or `''`",
            read=addresses.optional_directory,
        ),
    ] = "/etc/cri-proxy/costs.d"
    missing: Annotated[
        Missing,
        Option(
            "missing",
            "A cost that no cost file has. zero: counts as 0; mirror: as that of the other direction, if known",
        ),
    ] = Missing.ZERO
    normalize: Annotated[
        Normalize,
        Option(
            "normalize",
            "Make costs of different origin comparable. per-type-max: the largest cost that devices of a type report "
            "becomes 100; global: the largest of all does; none: the numbers that were written",
        ),
    ] = Normalize.PER_TYPE_MAX


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The inventory of devices that containers get by their place to each other."""

    inventory: Annotated[
        str,
        Option(
            "inventory",
            "The file that lists GPUs, NICs and other devices, in the format of docs/devices.md; '' for none",
            values="a file, or `''`",
            read=addresses.optional_directory,
        ),
    ] = ""
    scan: Annotated[
        bool,
        Option("scan", "Give out the GPUs, NICs and accelerators that are found on PCI too, beside those of the file"),
    ] = False
