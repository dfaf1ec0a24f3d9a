"""The table of supported annotations: each row has its key, parser, target field, documentation and display text."""

from functools import partial

from cri_proxy.cri.annotations import device_filter, preferences
from cri_proxy.cri.annotations.affinity import affinities
from cri_proxy.cri.annotations.device_request import amounts_text, device_amounts
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.values import shared_preference, truth
from policies.preferences import Preferences


def _chosen(value: bool | None, if_true: str, if_false: str) -> str:
    return "" if value is None else (if_true if value else if_false)


def _preference(value: bool | None) -> str:
    return _chosen(value, "preferred", "not wanted")


def _shared_preference(preferences: Preferences) -> str:
    levels = preferences.levels_up
    if not levels:
        return _preference(preferences.prefer_shared)
    return f"{levels} {'level' if levels == 1 else 'levels'} above the best pool"


# What most keys take from other containers: they choose among what the container's own requests pay for, or add to its
# own wishes. The text of the others says what they take.
NOTHING_OF_OTHERS = ""

PREFER_ISOLATED = Annotation(
    "prefer-isolated-cpus",
    truth,
    ("prefer_isolated",),
    "Take kernel-isolated CPUs for exclusive use when enough are free, or take none of them.",
    ("true", "false", '{"c0": true, "c1": false}'),
    "perhaps",
    NOTHING_OF_OTHERS,
    label="isolated CPUs",
    shown=lambda asked: "" if asked.require_isolated else _preference(asked.prefer_isolated),
)
REQUIRE_ISOLATED = Annotation(
    "require-isolated-cpus",
    truth,
    ("require_isolated",),
    "Refuse the container rather than give it exclusive CPUs that are not kernel-isolated.",
    ("true", '{"c0": true}'),
    "2",
    NOTHING_OF_OTHERS,
    label="isolated CPUs",
    shown=lambda asked: "required" if asked.require_isolated else "",
)
PREFER_SHARED = Annotation(
    "prefer-shared-cpus",
    shared_preference,
    ("prefer_shared", "levels_up"),
    "true: everything from the shared CPUs; false: the whole part of the request exclusive, for Burstable containers "
    "too; -N: shared, N levels above the best pool; 0 is true.",
    ("true", "false", "0", "-1", '{"c0": -1, "c1": true}'),
    "1",
    NOTHING_OF_OTHERS,
    label="shared CPUs",
    shown=_shared_preference,
)
PREFER_RESERVED = Annotation(
    "prefer-reserved-cpus",
    truth,
    ("prefer_reserved",),
    "Run on the CPUs that are reserved for the system, while these have room for the request, else on shared ones "
    "until there is room; or (false) not, although the namespace is a reserved one.",
    ("true", "false"),
    "kube-system",
    "the CPUs of the system daemons",
    label="reserved CPUs",
    shown=lambda asked: _preference(asked.prefer_reserved),
)
PRESERVE_CPU = Annotation(
    "cpu.preserve",
    truth,
    ("preserve_cpu",),
    "Leave the container's CPU set alone, and its memory nodes with it.",
    ("true", "false"),
    "[0, 1]",
    "time on every CPU, also on those that other containers own; memory of every node",
    label="CPUs",
    shown=lambda asked: "left alone" if asked.preserve_cpu else "",
)
PRESERVE_MEMORY = Annotation(
    "memory.preserve",
    truth,
    ("preserve_memory",),
    "Leave the container's memory nodes alone.",
    ("true", "false"),
    "dram",
    "memory of every node, also where other containers are placed",
    label="memory nodes",
    shown=lambda asked: "left alone" if asked.preserve_memory else "",
)
HYPERTHREADS = Annotation(
    "hyperthreads",
    preferences.threads,
    ("threads",),
    "Thread siblings. own-core: exclusive CPUs are whole cores, no other container gets the siblings; hide: as "
    "own-core, and only one thread of each core is used, of shared CPUs too; any: other containers may get them.",
    ("hide", "own-core", "any", "{c0: hide}"),
    "both",
    "the siblings of its CPUs, up to twice what it requests",
    label="hyperthreads",
    shown=lambda asked: asked.threads or "",
)
HIDE_HYPERTHREADS = Annotation(
    "hide-hyperthreads",
    preferences.hidden_threads,
    ("threads",),
    "true: as hyperthreads: hide; false: as hyperthreads: any. The narrower scope of the two wins, then hyperthreads.",
    ("true", "false", "{c0: true}", "own-core"),
    "2",
    "the same as with hyperthreads",
    spelling_of="hyperthreads",
)
STRICT_HYPERTHREADS = Annotation(
    "strict.hyperthreads",
    truth,
    ("strict_threads",),
    "Refuse the container rather than do without the cores that hyperthreads asks for: whole cores to own or, to share "
    "with hide, a core for each CPU requested. false: do without them where they are lacking.",
    ("true", "false", "{c0: true}"),
    "own-core",
    NOTHING_OF_OTHERS,
    label="hyperthreads",
    shown=lambda asked: _chosen(asked.strict_threads, "required: refused without such cores", "preferred"),
)
CPU_DISTRIBUTION = Annotation(
    "cpu-distribution",
    preferences.distribution,
    ("distribution",),
    "How exclusive CPUs lie to each other. pack: close together; across-numa: in even parts over NUMA nodes where one "
    "does not suffice; across-cores: one thread of each core, the siblings stay for others.",
    ("pack", "across-numa", "across-cores", "{c0: across-cores}"),
    "spread",
    NOTHING_OF_OTHERS,
    label="CPU distribution",
    shown=lambda asked: asked.distribution or "",
)
STRICT_SINGLE_NODE = Annotation(
    "strict.single-numa-node",
    truth,
    ("single_node",),
    "Refuse the container rather than let it run on CPUs of several NUMA nodes.",
    ("true", "false", "{c0: true}"),
    "0",
    NOTHING_OF_OTHERS,
    label="NUMA nodes",
    shown=lambda asked: _chosen(asked.single_node, "required: CPUs of one node", "as many as are needed"),
)
PREFER_CPU_PRIORITY = Annotation(
    "prefer-cpu-priority",
    preferences.cpu_priority,
    ("priority",),
    "Which CPUs to prefer where they differ in base frequency, energy preference or core kind; default: as the option "
    "DefaultCPUPriority.",
    ("high", "normal", "low", "none", "default"),
    "1",
    NOTHING_OF_OTHERS,
    label="CPU priority",
    shown=lambda asked: asked.priority or "",
)
UNLIMITED_BURSTABLE = Annotation(
    "unlimited-burstable",
    preferences.burst_level,
    ("burst_level",),
    "How wide a pool a best-effort container, or a Burstable one without a CPU limit, should get.",
    ("system", "package", "die", "numa", "l3cache"),
    "true",
    NOTHING_OF_OTHERS,
    label="burst up to",
    shown=lambda asked: asked.burst_level or "",
)
POOL_CHOICE = Annotation(
    "pool-choice",
    preferences.pool_choice,
    ("pool_choice",),
    "Which of the pools that suit equally: with the most left, with the least, or by what is left of CPUs and memory.",
    ("spread", "pack", "balanced", "c0: pack"),
    "tight",
    NOTHING_OF_OTHERS,
    label="pool choice",
    shown=lambda asked: asked.pool_choice or "",
)
MEMORY_TYPE = Annotation(
    "memory-type",
    preferences.memory_kinds,
    ("memory_kinds",),
    "Kinds of memory to use; mixed is dram and pmem. Without it: every kind but HBM.",
    ("dram", "pmem,dram", "mixed", '["hbm"]', "c0: dram,pmem"),
    "ram",
    NOTHING_OF_OTHERS,
    label="memory kinds",
    shown=lambda asked: ", ".join(asked.memory_kinds),
)
STRICT_MEMORY_TYPE = Annotation(
    "strict.memory-type",
    truth,
    ("strict_memory",),
    "Refuse the container rather than use other kinds of memory than memory-type names, or more than there is.",
    ("true", "false", "{c0: true}"),
    "dram",
    NOTHING_OF_OTHERS,
    label="memory kinds",
    shown=lambda asked: "required: no other kind, no more than there is" if asked.strict_memory else "",
)
HUGE_PAGES = Annotation(
    "hugepages",
    preferences.huge_pages,
    ("huge_pages",),
    "Where the container's huge pages should be, if it has a limit of some. local (without it, too): on the memory "
    "nodes of its pool, and on the nearest others where these have too few; spread: on any node that has some.",
    ("local", "spread", "{c0: spread}"),
    "2Mi",
    NOTHING_OF_OTHERS,
    label="huge pages",
    shown=lambda asked: asked.huge_pages or "",
)
STRICT_HUGE_PAGES = Annotation(
    "strict.hugepages",
    truth,
    ("strict_huge_pages",),
    "Refuse the container rather than have huge pages outside the memory nodes of its pool, or more than there are.",
    ("true", "false", "{c0: true}"),
    "local",
    NOTHING_OF_OTHERS,
    label="huge pages",
    shown=lambda asked: "required on the nodes of its pool" if asked.strict_huge_pages else "",
)
TOPOLOGY_HINTS = Annotation(
    "topologyhints",
    device_filter.hint_sources,
    ("hints",),
    "Which hints count for where the container runs: its mounts, its devices, the kubelet's pod resources; true "
    "(all) or false (none of it).",
    ("true", "false", "all", "none", "devices", "mounts,devices", '["pod-resources"]', '{"c0": false}'),
    "near",
    NOTHING_OF_OTHERS,
)
ALLOW_HINTS = Annotation(
    "allow.topologyhints",
    device_filter.path_patterns,
    ("hints",),
    "Paths whose locality counts although deny.topologyhints names them: prefixes, or globs in which ** crosses "
    "slashes; podresapi:NAME is a resource of the kubelet's pod resources.",
    ('["/dev/dri"]', '["/dev/nvme*"]', "type: glob\npaths: [/dev/nvme*]", "c0: [/dev/dri]"),
    "[nvme0]",
    NOTHING_OF_OTHERS,
    value_fields=device_filter.PATH_FIELDS,
)
DENY_HINTS = Annotation(
    "deny.topologyhints",
    device_filter.path_patterns,
    ("hints",),
    "Paths whose locality does not count, unless allow.topologyhints names them as well; written as there.",
    ('["/"]', '["/var/lib/data", "podresapi:example.com/nic"]', "type: prefix\npaths: [/]"),
    "[1]",
    NOTHING_OF_OTHERS,
    value_fields=device_filter.PATH_FIELDS,
)
STRICT_HINTS = Annotation(
    "strict.topologyhints",
    truth,
    ("strict_hints",),
    "Refuse the container rather than run it far from one of its devices.",
    ("true", "false", "{c0: true}"),
    "near",
    NOTHING_OF_OTHERS,
    label="devices",
    shown=lambda asked: "required to be near" if asked.strict_hints else "",
)
PICK_BY_HINTS = Annotation(
    "pick-resources-by-hints",
    truth,
    ("spread_by_hints",),
    "Take exclusive CPUs near each of its devices where these are on different nodes.",
    ("true", "false", "{c0: true}"),
    "devices",
    NOTHING_OF_OTHERS,
    label="devices",
    shown=lambda asked: _chosen(asked.spread_by_hints, "CPUs near each of them", "CPUs wherever in the pool"),
)
DEVICE_REQUEST = Annotation(
    "device-request",
    device_amounts,
    ("devices",),
    "How many devices of each type that cost files list the container gets for itself, chosen by their costs: "
    "TYPE=COUNT, separated by commas, or a map of them. For the whole pod: each of its containers gets so many. none: "
    "none. The container is refused where too few are free.",
    ("example.com/gpu=2,example.com/nic=1", "{c0: example.com/gpu=2}", '{"example.com/gpu": 2}', "none"),
    "cpu=2",
    "devices, which no other container gets meanwhile",
    label="devices asked",
    shown=lambda asked: amounts_text(asked.devices),
)
TOPOLOGY_POLICY = Annotation(
    "topology-policy",
    preferences.topology_policy,
    ("topology_policy",),
    "Keep CPUs, memory and devices on the same NUMA nodes, as the option topologyManager.policy says it for all. "
    "best-effort: on the best there are; restricted: refuse the container unless every resource prefers them; "
    "single-numa-node: refuse it unless one node has everything; none: as if there were no hints.",
    ("restricted", "single-numa-node", "best-effort", "none", "{c0: restricted}"),
    "strict",
    NOTHING_OF_OTHERS,
    label="topology policy",
    shown=lambda asked: asked.topology_policy or "",
)
TOPOLOGY_SCOPE = Annotation(
    "topology-scope",
    preferences.topology_scope,
    ("topology_scope",),
    "Merge the hints of each container, or of the pod as a whole: then all of its containers stay on the same nodes.",
    ("pod", "container"),
    "node",
    NOTHING_OF_OTHERS,
    label="topology scope",
    shown=lambda asked: asked.topology_scope or "",
)
COLD_START = Annotation(
    "cold-start",
    preferences.cold_start_seconds,
    ("cold_start_seconds",),
    "Use only PMEM for this long (at most 1h), then DRAM too: what is allocated early and left alone stays on PMEM.",
    ("duration: 60s", '{"duration": "1m30s"}', "60", "c0: {duration: 1h}", "c0: 10s"),
    "duration: soon",
    NOTHING_OF_OTHERS,
    value_fields=preferences.COLD_START_FIELDS,
    label="cold start",
    shown=lambda asked: f"{asked.cold_start_seconds} s on PMEM" if asked.cold_start_seconds else "",
)
RESOURCE_FILES = Annotation(
    "resource-files",
    truth,
    ("resource_files",),
    "Mount a directory into the container whose files list its CPUs and memory nodes, or mount none.",
    ("true", "false", "{c0: true}"),
    "/resources",
    NOTHING_OF_OTHERS,
    old_keys=("tell-resources",),
    label="resource files",
    shown=lambda asked: _chosen(asked.resource_files, "mounted at /.cri-proxy", "not mounted"),
)
THREAD_COUNTS = Annotation(
    "thread-counts",
    preferences.thread_counts,
    ("thread_counts",),
    "Set GOMAXPROCS, OMP_NUM_THREADS and the like (the option threadCounts.variables) when the container is created, "
    "but for those that the pod sets itself. owned: to the number of its exclusive CPUs, if it has any; request: to "
    "its CPU request, rounded up; none: set none.",
    ("owned", "request", "none", "{c0: owned}"),
    "4",
    NOTHING_OF_OTHERS,
    label="thread counts",
    shown=lambda asked: asked.thread_counts or "",
)
NOTIFY_EXEC = Annotation(
    "notify-exec",
    preferences.command,
    ("notify",),
    "A command to run in the container when its resources have changed: a list of words, or one text.",
    ("kill -HUP 1", '["sh", "-c", "touch /tmp/changed"]', "c0: [kill, -HUP, 1]"),
    "[]",
    "a turn among the commands that the node runs, and the runtime's time",
    label="notified",
    shown=lambda asked: f"by running {' '.join(asked.notify)}" if asked.notify else "",
)
AFFINITY = Annotation(
    "affinity",
    partial(affinities, anti=False),
    ("affinities",),
    "Prefer to be near other containers, by container name. Short: a list of names of the same pod. Full: a list of "
    "match, scope (default: the same pod) and weight (default 1, within ±1000).",
    ("c0: [c1]", "c0:\n- match: {key: name, operator: In, values: [c1]}\n  weight: 10"),
    "c0: c1",
    NOTHING_OF_OTHERS,
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
    NOTHING_OF_OTHERS,
    by_container_only=True,
)

TABLE: tuple[Annotation[object], ...] = tuple(row for row in tuple(globals().values()) if isinstance(row, Annotation))
