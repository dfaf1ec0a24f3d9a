"""The table of supported annotations: each row has its key, parser, target field, documentation and display text."""

from functools import partial

from cri_proxy.cri.annotations import device_filter, preferences
from cri_proxy.cri.annotations.affinity import affinities
from cri_proxy.cri.annotations.cpu_memory_rows import CPU_MEMORY_ROWS, chosen
from cri_proxy.cri.annotations.device_request import amounts_text, device_amounts
from cri_proxy.cri.annotations.device_resources import SHORT_NAMES, device_requests, requests_text
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.values import truth
from policies.alignment import TopologyPolicy, TopologyScope
from policies.preferences import ThreadCounts

TOPOLOGY_HINTS = Annotation(
    "topologyhints",
    device_filter.source_kinds,
    ("localities",),
    "Which hints count for where the container runs: its mounts, its devices (nodes, CDI devices, variables of "
    "device plugins), the kubelet's pod resources; true (all) or false (none of it).",
    ("true", "false", "all", "none", "devices", "mounts,devices", '["pod-resources"]', '{"c0": false}'),
    "near",
)
ALLOW_HINTS = Annotation(
    "allow.topologyhints",
    device_filter.path_patterns,
    ("localities",),
    "Paths whose locality counts although deny.topologyhints names them: prefixes, or globs in which ** crosses "
    "slashes; podresapi:NAME is a resource of the kubelet's pod resources, or the DRIVER/POOL/DEVICE of a claim.",
    ('["/dev/dri"]', '["/dev/nvme*"]', "type: glob\npaths: [/dev/nvme*]", "c0: [/dev/dri]"),
    "[nvme0]",
    value_fields=device_filter.PATH_FIELDS,
)
DENY_HINTS = Annotation(
    "deny.topologyhints",
    device_filter.path_patterns,
    ("localities",),
    "Paths whose locality does not count, unless allow.topologyhints names them as well; written as there.",
    ('["/"]', '["/var/lib/data", "podresapi:example.com/nic"]', "type: prefix\npaths: [/]"),
    "[1]",
    value_fields=device_filter.PATH_FIELDS,
)
STRICT_HINTS = Annotation(
    "strict.topologyhints",
    truth,
    ("strict_locality",),
    "Refuse the container rather than run it far from one of its devices.",
    ("true", "false", "{c0: true}"),
    "near",
    label="devices",
    words=lambda asked: "required to be near" if asked.strict_locality else "",
)
PICK_BY_HINTS = Annotation(
    "pick-resources-by-hints",
    truth,
    ("spread_by_locality",),
    "Take exclusive CPUs near each of its devices where these are on different nodes.",
    ("true", "false", "{c0: true}"),
    "devices",
    label="devices",
    words=lambda asked: chosen(asked.spread_by_locality, "CPUs near each of them", "CPUs wherever in the pool"),
)
DEVICE_REQUEST = Annotation(
    "device-request",
    device_amounts,
    ("devices.counts",),
    "How many devices of each type that cost files list the container gets for itself, chosen by their costs: "
    "TYPE=COUNT, separated by commas, or a map of them. For the whole pod: each of its containers gets so many. none: "
    "none. The container is refused where too few are free.",
    ("example.com/gpu=2,example.com/nic=1", "{c0: example.com/gpu=2}", '{"example.com/gpu": 2}', "none"),
    "cpu=2",
    takes="devices, which no other container gets meanwhile",
    label="devices asked",
    words=lambda asked: amounts_text(asked.devices.counts),
)
DEVICE_RESOURCES = Annotation(
    "device-resources",
    device_requests,
    ("devices.requests",),
    "How much of the inventory's devices the container gets, by Koordinator's resource names: RESOURCE=AMOUNT, "
    "separated by commas, or a map of them. For the whole pod: each of its containers gets so much. Koordinator's "
    "annotations device-joint-allocate, device-allocate-hint and gpu-partition-spec of the pod say which ones. "
    "none: none. The container is refused where too little is free.",
    ("nvidia.com/gpu=4,koordinator.sh/rdma=1", '{c0: "gpu-core=50,gpu-memory=40Gi"}', '{"nvidia.com/gpu": 2}', "none"),
    "nvidia.com/gpus=2",
    takes="devices, or shares of them, which no other container gets meanwhile",
    value_fields=SHORT_NAMES,
    label="device amounts",
    words=lambda asked: requests_text(asked.devices.requests),
)
TOPOLOGY_POLICY = Annotation(
    "topology-policy",
    preferences.choice(TopologyPolicy),
    ("topology_policy",),
    "Keep CPUs, memory and devices on the same NUMA nodes, as the option topologyManager.policy does for all. "
    "best-effort: on the best there are; restricted: refuse the container unless every resource prefers them; "
    "single-numa-node: refuse it unless one node has everything; none: as if there were no hints.",
    ("restricted", "single-numa-node", "best-effort", "none", "{c0: restricted}"),
    "strict",
    label="topology policy",
)
TOPOLOGY_SCOPE = Annotation(
    "topology-scope",
    preferences.choice(TopologyScope),
    ("topology_scope",),
    "Merge the hints of each container, or of the pod as a whole: then all of its containers stay on the same nodes.",
    ("pod", "container"),
    "node",
    label="topology scope",
)
COLD_START = Annotation(
    "cold-start",
    preferences.cold_start_seconds,
    ("cold_start_seconds",),
    "Use only PMEM for this long (at most 1h), then DRAM too: what is allocated early and left alone stays on PMEM.",
    ("duration: 60s", '{"duration": "1m30s"}', "60", "c0: {duration: 1h}", "c0: 10s"),
    "duration: soon",
    value_fields=preferences.COLD_START_FIELDS,
    label="cold start",
    words=lambda asked: f"{asked.cold_start_seconds} s on PMEM" if asked.cold_start_seconds else "",
)
RESOURCE_FILES = Annotation(
    "resource-files",
    truth,
    ("resource_files",),
    "Mount a directory into the container whose files list its CPUs and memory nodes, or mount none.",
    ("true", "false", "{c0: true}"),
    "/resources",
    old_keys=("tell-resources",),
    label="resource files",
    words=lambda asked: chosen(asked.resource_files, "mounted at /.cri-proxy", "not mounted"),
)
THREAD_COUNTS = Annotation(
    "thread-counts",
    preferences.choice(ThreadCounts),
    ("thread_counts",),
    "Set GOMAXPROCS, OMP_NUM_THREADS and the like (the option threadCounts.variables) when the container is created, "
    "but for those that the pod sets itself. owned: to the number of its exclusive CPUs, if it has any; request: to "
    "its CPU request, rounded up; none: set none.",
    ("owned", "request", "none", "{c0: owned}"),
    "4",
    label="thread counts",
)
NOTIFY_EXEC = Annotation(
    "notify-exec",
    preferences.command,
    ("notify",),
    "A command to run in the container when its resources have changed: a list of words, or one text.",
    ("kill -HUP 1", '["sh", "-c", "touch /tmp/changed"]', "c0: [kill, -HUP, 1]"),
    "[]",
    takes="a turn among the commands that the node runs, and the runtime's time",
    label="notified",
    words=lambda asked: f"by running {' '.join(asked.notify)}" if asked.notify else "",
)
AFFINITY = Annotation(
    "affinity",
    partial(affinities, anti=False),
    ("affinities",),
    "Prefer to be near other containers, by container name. Short: a list of names of the same pod. Full: a list of "
    "match, scope (default: the same pod) and weight (default 1, within ±1000).",
    ("c0: [c1]", "c0:\n- match: {key: name, operator: In, values: [c1]}\n  weight: 10"),
    "c0: c1",
    by_container_only=True,
    label="affinity",
)
ANTI_AFFINITY = Annotation(
    "anti-affinity",
    partial(affinities, anti=True),
    ("affinities",),
    "Prefer to be away from other containers; as affinity, the weight is minus its absolute value (default -1).",
    ("c0: [c1, c2]",),
    "c0:\n- match: {operator: Near, values: [c1]}",
    by_container_only=True,
)

_OTHER_ROWS = tuple(row for row in tuple(globals().values()) if isinstance(row, Annotation))

TABLE: tuple[Annotation[object], ...] = (*CPU_MEMORY_ROWS, *_OTHER_ROWS)
