"""``Config``: the daemon's options as frozen dataclasses (key, flag, default, help); list them and the policies'.

An option's type defines its values (``config.option`` reads them); ``Option`` has the rest.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from cri_proxy.config import addresses
from cri_proxy.config.cpus import AvailableCpus, ReservedCpus, parse_available, parse_reserved
from cri_proxy.config.memory_kinds import NodeMemory, NodeReserve, parse_node_memory, parse_node_reserve
from cri_proxy.config.option import Known, options_of
from cri_proxy.config.option_groups import (
    CostOptions,
    DeviceOptions,
    HttpTlsOptions,
    LogOptions,
    ThreadCountOptions,
    TopologyManager,
)
from cri_proxy.cri.annotations import rules as annotation_rules
from cri_proxy.cri.annotations.rules import AnnotationRules, Restriction
from policies.glob import is_like
from policies.options import PolicyOptions, option
from policies.registry import POLICIES
from policies.topology_aware import SYSTEM_NAMESPACE, TopologyAwareOptions

# What a value looks like, for people, and what reads it.
_Form = tuple[str, Callable[[str], object]]
_SOCKET: _Form = ("`unix:///PATH`", addresses.unix_endpoint)
_OPTIONAL_SOCKET: _Form = ("`unix:///PATH`", addresses.optional_endpoint)
_RUNTIME: _Form = ("`unix:///PATH` or `embedded`", addresses.runtime_endpoint)
_DIRECTORY: _Form = ("a directory", addresses.directory)
_FILE: _Form = ("a file", addresses.optional_directory)
_HTTP: _Form = ("`ADDRESS:PORT` or `off`", addresses.http_address)
_NAME: _Form = ("a name", addresses.optional_name)


def _at_start(default: str, key: str, text: str, form: _Form, *, has_flag: bool = True) -> str:
    """Return an option that is read at start only; its flag is its key in lower case, with dashes between the words."""
    values, read = form
    flag = "--" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", key) if has_flag else ""
    return option(default, key, text, flag=flag, values=values, read=read, is_reloadable=False)


@dataclass(frozen=True, slots=True)
class CpuBudget:
    """CPUs that may be used at all."""

    cpu: AvailableCpus | None = option(
        None,
        "cpu",
        "CPUs that containers may use. Default: the online CPUs inside the root cgroup's effective set",
        flag="--available-resources",
        values="`cpuset:LIST`, `exclude-cpuset:LIST` or a cgroup directory",
        read=parse_available,
    )


@dataclass(frozen=True, slots=True)
class CpuReserve:
    """CPUs and memory kept for the system."""

    cpu: ReservedCpus | None = option(
        None,
        "cpu",
        "CPUs kept for kube-system and other reserved namespaces, inside the available ones. A quantity is "
        "rounded up to whole CPUs, taken from the lowest-numbered whole core. Default: none, with a warning",
        flag="--reserved-resources",
        values="a quantity (`750m`, `2`), `cpuset:LIST` or `exclude-cpuset:LIST`",
        unit="CPU",
        read=parse_reserved,
    )
    memory: tuple[NodeReserve, ...] = option(
        (),
        "memory",
        "Memory of NUMA nodes that is promised to no container, as the kubelet's `reservedMemory`. A quantity alone is "
        "spread over the nodes with CPUs by their sizes",
        values="a quantity (`2Gi`), or a mapping of node (or node list) to the quantity of each: `{0-1: 1Gi}`",
        read=parse_node_reserve,
        takes_mapping=True,
    )


# The policies that have a group of options in the configuration.
_WITH_OPTIONS: Final = tuple(policy for policy in POLICIES if policy.options is not PolicyOptions)
OptionsT = TypeVar("OptionsT", bound=PolicyOptions)


@dataclass(frozen=True, slots=True)
class Config:
    """All options. The defaults alone are a valid configuration."""

    policy: str = option(
        POLICIES[0].name,
        "policy",
        "The policy that places containers. none: every call passes unchanged",
        flag="--policy",
        choices=tuple(policy.name for policy in POLICIES),
    )
    available: CpuBudget = option(CpuBudget(), "availableResources", "")
    reserved: CpuReserve = option(CpuReserve(), "reservedResources", "")
    policy_options: tuple[PolicyOptions, ...] = tuple(policy.options() for policy in _WITH_OPTIONS)
    topology_manager: TopologyManager = option(TopologyManager(), "topologyManager", "")
    costs: CostOptions = option(CostOptions(), "costs", "")
    devices: DeviceOptions = option(DeviceOptions(), "devices", "")
    memory_kinds: tuple[NodeMemory, ...] = option(
        (),
        "memoryKinds",
        "The kind of memory of NUMA nodes, where the kernel's memory tiers, the HMAT and the sizes are wrong",
        values="a mapping of node (or node list) to `dram`, `pmem` or `hbm`: `{2-3: pmem}`",
        read=parse_node_memory,
        takes_mapping=True,
    )
    pod_resources: bool = option(
        True, "podResources", "Ask the kubelet which devices a container has, and where they are"
    )
    cdi: Literal["auto", "runtime", "resolve"] = option(
        "auto",
        "cdi",
        "How containers get the CDI devices that are granted to them. runtime: by name, from the runtime; resolve: "
        "as the device nodes, mounts and variables that their specification names; auto: as the runtime's version "
        "and configuration allow",
    )
    visible_devices: Literal["leave", "void"] = option(
        "leave",
        "visibleDevices",
        "NVIDIA_VISIBLE_DEVICES of containers without a GPU, by which NVIDIA's runtime shows them those of others, on "
        "a node whose inventory has NVIDIA's. leave: as the pod or its image has it; void: no GPU, also where the "
        "image says all. Needs podResources; privileged containers keep theirs. Counts for new containers",
    )
    visible_devices_namespaces: tuple[str, ...] = option(
        ("kube-system", "gpu-operator", "nvidia-device-plugin"),
        "visibleDevicesNamespaces",
        "Namespaces (shell globs) whose containers keep NVIDIA_VISIBLE_DEVICES under visibleDevices: void: device "
        "plugins, GPU feature discovery and monitoring see all GPUs by it. Devices of their claims (DRA, adminAccess) "
        "are not held",
    )
    claims: Literal["honour", "ignore"] = option(
        "honour",
        "claims",
        "CPUs and devices that another allocator has chosen for a container: a CPU DRA driver (`DRA_CPUSET_*` of its "
        "CDI devices) or Koordinator's scheduler (`resource-status`, `device-allocated`). honour: the container gets "
        "exactly these, alone, or is refused; ignore: it is placed as if nothing was chosen. Counts for new containers",
    )
    resource_files: Literal["auto", "always", "never"] = option(
        "auto",
        "resourceFiles",
        "Mount a directory with its resources into a container. auto: where it owns CPUs or an annotation asks; "
        "always: into every one; never: into none",
        was=("tellContainers",),
    )
    thread_counts: ThreadCountOptions = option(ThreadCountOptions(), "threadCounts", "")
    drift_check_seconds: float = option(
        60.0,
        "driftCheckSeconds",
        "How often the cgroups are compared with the grants; 0: never",
        unit="seconds",
        least=1,
        most=86_400,
        is_zero_off=True,
    )
    on_shortage: Literal["admit", "refuse"] = option(
        "admit",
        "onShortage",
        "When no pool has the shared CPU time that a container requests: admit it without a reservation, or refuse it",
    )
    sharers_start_on: Literal["pool", "part"] = option(
        "part",
        "sharersStartOn",
        "Create a container that would start on all shared CPUs of the machine on three quarters of them until it "
        "runs, so that owners find CPUs beside a start that hangs, or on all: an update less for each",
    )
    on_policy_error: Literal["passthrough", "reject"] = option(
        "passthrough",
        "onPolicyError",
        "An error inside the proxy: let the container start shared and unplaced, or refuse it",
    )
    on_store_error: Literal["continue", "reject"] = option(
        "continue", "onStoreError", "The state cannot be saved: go on and report it, or refuse the container"
    )
    adopt: Literal["pin", "leave"] = option(
        "pin", "adopt", "Containers that run already at the first start: place them, or leave them alone"
    )
    strict_annotations: bool = option(
        False, "strictAnnotations", "Refuse a container whose annotation cannot be read, instead of ignoring it"
    )
    annotation_domains: tuple[str, ...] = option(
        ("cri-proxy.io", "resource-policy.nri.io", "cri-resource-manager.intel.com"),
        "annotationDomains",
        "Domains of the annotations that are read; where several carry the same key, the first wins",
        values="a list of DNS names",
        read=addresses.annotation_domain,
    )
    restricted_annotations: tuple[Restriction, ...] = option(
        (),
        annotation_rules.OPTION,
        "Annotations that count only in some namespaces (shell globs; none: nowhere), in every spelling; elsewhere "
        "they are ignored and reported. configs/shared-node.yaml restricts those that take from others",
        values="a list of `{keys: [...], namespaces: [...]}`",
        read=annotation_rules.parse_restriction,
        item_fields=annotation_rules.ITEM_FIELDS,
    )
    log: LogOptions = option(LogOptions(), "log", "")
    relay: Literal["splice", "grpc"] = option(
        "splice",
        "relay",
        "How calls are relayed: frame by frame, or with grpc.aio",
        flag="--relay",
        is_reloadable=False,
    )
    listen: str = _at_start(
        "unix:///run/cri-proxy/cri-proxy.sock",
        "listen",
        "The socket that the kubelet is pointed at; `admin.sock` lies beside it",
        _SOCKET,
    )
    runtime_endpoint: str = _at_start(
        "unix:///run/containerd/containerd.sock",
        "runtimeEndpoint",
        "The runtime's socket; embedded: a simulated runtime inside this process",
        _RUNTIME,
    )
    image_listen: str = _at_start(
        "", "imageListen", "A second socket, for a separate image service; needs imageEndpoint", _OPTIONAL_SOCKET
    )
    image_endpoint: str = _at_start(
        "", "imageEndpoint", "The separate image service behind imageListen", _OPTIONAL_SOCKET
    )
    pod_resources_listen: str = _at_start(
        "",
        "podResourcesListen",
        "A socket that answers the kubelet's pod resources API with what containers were granted here, for exporters: "
        "`unix:///run/cri-proxy/pod-resources/kubelet.sock`. Default: none",
        _OPTIONAL_SOCKET,
    )
    node_topology_file: str = _at_start(
        "",
        "nodeTopologyFile",
        "A file that has the node as a NodeResourceTopology object, for schedulers that know NUMA; written whenever it "
        "changes. Its directory must be there. Default: none",
        _FILE,
    )
    state_dir: str = _at_start(
        "/var/lib/cri-proxy", "stateDir", "Where grants are kept; only root may write there", _DIRECTORY
    )
    kubelet_root: str = _at_start(
        "/var/lib/kubelet",
        "kubeletRoot",
        "The kubelet's own directory (its `--root-dir`), where its pod-resources socket and CPU manager state are",
        _DIRECTORY,
        has_flag=False,
    )
    sysfs_root: str = _at_start("/", "sysfsRoot", "The directory that holds `sys/` and `proc/`", _DIRECTORY)
    http: str = _at_start(
        "127.0.0.1:8891",
        "http",
        "Where health and status are served over HTTP; a port that is taken is a warning, tried again every minute",
        _HTTP,
    )
    http_tls: HttpTlsOptions = option(HttpTlsOptions(), "httpTLS", "")
    extender: bool = option(
        False,
        "extender",
        "Answer kube-scheduler's questions about GPU links at the address of `http`, below `/extender`; for small "
        "clusters, others run `cri-proxy extender`",
        is_reloadable=False,
    )
    node_name: str = _at_start(
        "",
        "nodeName",
        "This node's name. Default: the kubelet's `--hostname-override`, where its unit has one, else the host name in "
        "lower case. Only the command line's value, or the default, chooses a file of a configuration directory",
        _NAME,
    )
    node_group: str = _at_start(
        "",
        "nodeGroup",
        "This node's group. Only the command line's value chooses a file of a configuration directory",
        _NAME,
    )

    def lets_watch(self, namespace: str) -> bool:
        """Return whether containers of this namespace see devices that are in use: monitoring, device plugins."""
        return any(is_like(namespace, glob) for glob in self.visible_devices_namespaces)

    @property
    def annotation_rules(self) -> AnnotationRules:
        """How annotations of containers are read that keep what they have."""
        return AnnotationRules(self.annotation_domains, self.restricted_annotations)

    @property
    def creation_rules(self) -> AnnotationRules:
        """How annotations of new containers are read."""
        # Without a restriction of them, annotations that use CPUs of others count in these alone: any pod may write
        # them.
        reserved = self.of_policy(TopologyAwareOptions).reserved_namespaces
        return AnnotationRules(self.annotation_domains, self.restricted_annotations, (SYSTEM_NAMESPACE, *reserved))

    def of_policy(self, model: type[OptionsT]) -> OptionsT:
        """Return the options of the policy that has this model. The CPUs in them are empty: a machine decides them."""
        found = next((options for options in self.policy_options if type(options) is model), None)
        return model() if found is None else found


def _options() -> Iterator[Known]:
    for known in options_of(Config):
        yield known
        if known.names == ("reserved", "cpu"):  # those of the policies stand behind the CPUs that all of them are given
            for i, policy in enumerate(_WITH_OPTIONS):
                yield from options_of(policy.options, (policy.group,), ("policy_options", i))


# Built here, so that a model with a type that cannot be read cannot be imported.
_KNOWN: Final = tuple(_options())


def known_options() -> tuple[Known, ...]:
    """Return every option, in the order of the model."""
    return _KNOWN
