"""Groups of the daemon's options as frozen dataclasses: thread counts, log, HTTPS, topology manager, cost files."""

from dataclasses import dataclass
from typing import Literal

from cri_proxy.config import addresses
from cri_proxy.config.thread_variables import MAX_VARIABLES, VARIABLES, variable_name
from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.devices.costs import Missing, Normalize
from policies.hints import KUBELET_NODES
from policies.options import option
from policies.preferences import ThreadCounts


@dataclass(frozen=True, slots=True)
class ThreadCountOptions:
    """Variables with a thread count in the environment of new containers."""

    source: ThreadCounts = option(
        ThreadCounts.NONE,
        "from",
        "Set thread counts in the environment of new containers, unless an annotation does. owned: to the number "
        "of exclusive CPUs, where there are any; request: to the CPU request, rounded up; none: set none",
    )
    variables: tuple[str, ...] = option(
        VARIABLES,
        "variables",
        "The variables to set. One that the pod sets itself stays; one of the image is replaced",
        values=f"a list of at most {MAX_VARIABLES} names",
        read=variable_name,
    )


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The events that are logged, and the form of the log."""

    level: Literal["debug", "info", "warning", "error"] = option(
        "info", "level", "The least that is logged; debug: every decision as a whole"
    )
    format: Literal["auto", "json", "console"] = option(
        "auto", "format", "auto: coloured lines on a terminal, else a JSON object per line"
    )


@dataclass(frozen=True, slots=True)
class HttpTlsOptions:
    """TLS at the address of ``http``, and tokens for it."""

    certificate: str = option(
        "",
        "certificate",
        "The file with the certificate (PEM, with intermediate ones) for HTTPS at the address of `http`; '' for HTTP. "
        "Read again when it changes, as are the key and the tokens",
        values="a file, or `''`",
        read=addresses.optional_directory,
        is_reloadable=False,
    )
    key: str = option(
        "",
        "key",
        "The file with the key of that certificate (PEM, without a passphrase)",
        values="a file, or `''`",
        read=addresses.optional_directory,
        is_reloadable=False,
    )
    tokens: str = option(
        "",
        "tokenFile",
        "The file with the tokens that clients send (`Authorization: Bearer TOKEN`), a line each; '' asks for none",
        values="a file, or `''`",
        read=addresses.optional_directory,
        is_reloadable=False,
    )


@dataclass(frozen=True, slots=True)
class TopologyManager(TopologyOptions):
    """Merging of topology hints, as the kubelet's Topology Manager does it."""

    policy: TopologyPolicy = option(
        TopologyPolicy.NONE,
        "policy",
        "Keep the CPUs, memory and devices of a container on the same NUMA nodes, unless an annotation decides. "
        "best-effort: on the best there are; restricted: refuse it unless every resource prefers them; "
        "single-numa-node: refuse it unless one node has everything; none: merge no hints",
    )
    scope: TopologyScope = option(
        TopologyScope.CONTAINER,
        "scope",
        "Merge topology hints for each container, or for the pod as a whole, unless an annotation decides",
    )
    prefers_closest: bool = option(
        False,
        "prefer-closest-numa-nodes",
        "Of sets of as many NUMA nodes, take those with the smallest distances between them",
    )
    most_nodes: int = option(
        0,
        "max-allowable-numa-nodes",
        "On a machine of more NUMA nodes a configuration with a topology policy is not valid, as in the kubelet. "
        "0: no limit",
        unit="NUMA nodes",
        least=KUBELET_NODES,
        is_zero_off=True,
    )
    prefers_chosen_sets: bool = option(
        False,
        "preferred-allocation-hints",
        "Of the devices that annotations ask for, hints prefer the NUMA nodes of the cheapest set, not the fewest",
    )


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Cost files, and how they are read together."""

    directory: str = option(
        "/etc/cri-proxy/costs.d",
        "dir",
        "The directory of the cost files, which list devices that containers can ask for; '' for none",
        values="a directory, or `''`",
        read=addresses.optional_directory,
    )
    missing: Missing = option(
        Missing.ZERO,
        "missing",
        "A cost that no cost file has. zero: counts as 0; mirror: as that of the other direction, if known",
    )
    normalize: Normalize = option(
        Normalize.PER_TYPE_MAX,
        "normalize",
        "Make costs of different origin comparable. per-type-max: the largest cost that devices of a type report "
        "becomes 100; global: the largest of all does; none: the numbers that were written",
    )


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The inventory of devices that containers get by their place to each other."""

    inventory: str = option(
        "",
        "inventory",
        "The file that lists GPUs, NICs and other devices, in the format of docs/devices.md; '' for none",
        values="a file, or `''`",
        read=addresses.optional_directory,
    )
    scan: bool = option(
        False, "scan", "Give out the GPUs, NICs and accelerators that are found on PCI too, beside those of the file"
    )
    health: str = option(
        "",
        "health",
        "A file that says which devices are healthy, in a form of docs/devices.md; '' for none. Read every 30 s",
        values="a file, or `''`",
        read=addresses.optional_directory,
    )
