"""The rows of the annotations about CPUs and memory: key, parser, target field, documentation and display text."""

from cri_proxy.cri.annotations import preferences
from cri_proxy.cri.annotations.forms import Annotation
from cri_proxy.cri.annotations.values import shared_preference, truth
from policies.preferences import BurstLevel, CpuDistribution, HugePageNodes, PoolStrategy, Preferences, Threads


def chosen(value: bool | None, if_true: str, if_false: str) -> str:
    """Return the words for a choice; '' where there is none."""
    return "" if value is None else (if_true if value else if_false)


def _preference(value: bool | None) -> str:
    return chosen(value, "preferred", "not wanted")


def _shared_preference(preferences: Preferences) -> str:
    levels = preferences.levels_up
    if not levels:
        return _preference(preferences.prefer_shared)
    return f"{levels} {'level' if levels == 1 else 'levels'} above the best pool"


PREFER_ISOLATED = Annotation(
    "prefer-isolated-cpus",
    truth,
    ("prefer_isolated",),
    "Take kernel-isolated CPUs for exclusive use when enough are free, or take none of them.",
    ("true", "false", '{"c0": true, "c1": false}'),
    "perhaps",
    label="isolated CPUs",
    words=lambda asked: "" if asked.require_isolated else _preference(asked.prefer_isolated),
)
REQUIRE_ISOLATED = Annotation(
    "require-isolated-cpus",
    truth,
    ("require_isolated",),
    "Refuse the container rather than give it exclusive CPUs that are not kernel-isolated.",
    ("true", '{"c0": true}'),
    "2",
    label="isolated CPUs",
    words=lambda asked: "required" if asked.require_isolated else "",
)
PREFER_SHARED = Annotation(
    "prefer-shared-cpus",
    shared_preference,
    ("prefer_shared", "levels_up"),
    "true: everything from the shared CPUs; false: the whole part of the request exclusive, for Burstable containers "
    "too; -N: shared, N levels above the best pool; 0 is true.",
    ("true", "false", "0", "-1", '{"c0": -1, "c1": true}'),
    "1",
    label="shared CPUs",
    words=_shared_preference,
)
PREFER_RESERVED = Annotation(
    "prefer-reserved-cpus",
    truth,
    ("prefer_reserved",),
    "Run on the CPUs that are reserved for the system, while these have room for the request, else on shared ones "
    "until there is room; or (false) not, although the namespace is a reserved one. Where `restrictedAnnotations` does "
    "not name it, true counts in kube-system and `ReservedPoolNamespaces` only.",
    ("true", "false"),
    "kube-system",
    takes="the CPUs of the system daemons",
    label="reserved CPUs",
    words=lambda asked: _preference(asked.prefer_reserved),
)
PRESERVE_CPU = Annotation(
    "cpu.preserve",
    truth,
    ("preserve_cpu",),
    "Leave the container's CPU set alone, and its memory nodes with it. Outside kube-system and "
    "`ReservedPoolNamespaces`, unless `restrictedAnnotations` names it: share all CPUs that no container owns.",
    ("true", "false"),
    "[0, 1]",
    takes="time on every CPU, also on those that other containers own; memory of every node",
    label="CPUs",
    words=lambda asked: "left alone" if asked.preserve_cpu else "",
)
PRESERVE_MEMORY = Annotation(
    "memory.preserve",
    truth,
    ("preserve_memory",),
    "Leave the container's memory nodes alone.",
    ("true", "false"),
    "dram",
    takes="memory of every node, also where other containers are placed",
    label="memory nodes",
    words=lambda asked: "left alone" if asked.preserve_memory else "",
)
HYPERTHREADS = Annotation(
    "hyperthreads",
    preferences.choice(Threads),
    ("threads",),
    "Thread siblings. own-core: exclusive CPUs are whole cores, no other container gets the siblings; hide: as "
    "own-core, and only one thread of each core is used, of shared CPUs too; any: other containers may get them.",
    ("hide", "own-core", "any", "{c0: hide}"),
    "both",
    takes="the siblings of its CPUs, up to twice what it requests",
    label="hyperthreads",
)
HIDE_HYPERTHREADS = Annotation(
    "hide-hyperthreads",
    preferences.hidden_threads,
    ("threads",),
    "true: as hyperthreads: hide; false: as hyperthreads: any. The narrower scope of the two wins, then hyperthreads.",
    ("true", "false", "{c0: true}", "own-core"),
    "2",
    takes="the same as with hyperthreads",
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
    label="hyperthreads",
    words=lambda asked: chosen(asked.strict_threads, "required: refused without such cores", "preferred"),
)
CPU_DISTRIBUTION = Annotation(
    "cpu-distribution",
    preferences.choice(CpuDistribution),
    ("distribution",),
    "How exclusive CPUs lie to each other. pack: close together; across-numa: in even parts over NUMA nodes where one "
    "does not suffice; across-cores: one thread of each core, the siblings stay for others.",
    ("pack", "across-numa", "across-cores", "{c0: across-cores}"),
    "spread",
    label="CPU distribution",
)
STRICT_SINGLE_NODE = Annotation(
    "strict.single-numa-node",
    truth,
    ("single_node",),
    "Refuse the container rather than let it run on CPUs of several NUMA nodes.",
    ("true", "false", "{c0: true}"),
    "0",
    label="NUMA nodes",
    words=lambda asked: chosen(asked.single_node, "required: CPUs of one node", "as many as are needed"),
)
PREFER_CPU_PRIORITY = Annotation(
    "prefer-cpu-priority",
    preferences.cpu_priority,
    ("priority",),
    "Which CPUs to prefer where they differ in base frequency, energy preference or core kind; default: as the option "
    "DefaultCPUPriority.",
    ("high", "normal", "low", "none", "default"),
    "1",
    label="CPU priority",
)
UNLIMITED_BURSTABLE = Annotation(
    "unlimited-burstable",
    preferences.choice(BurstLevel),
    ("burst_level",),
    "How wide a pool a best-effort container, or a Burstable one without a CPU limit, should get.",
    ("system", "package", "die", "numa", "l3cache"),
    "true",
    label="burst up to",
)
POOL_CHOICE = Annotation(
    "pool-choice",
    preferences.choice(PoolStrategy),
    ("pool_choice",),
    "Which of the pools that suit equally: used least, with the least left, or by what is left of CPUs and memory.",
    ("spread", "pack", "balanced", "c0: pack"),
    "tight",
    label="pool choice",
)
MEMORY_TYPE = Annotation(
    "memory-type",
    preferences.memory_kinds,
    ("memory_kinds",),
    "Kinds of memory to use; mixed is dram and pmem. Without it: every kind but HBM.",
    ("dram", "pmem,dram", "mixed", '["hbm"]', "c0: dram,pmem"),
    "ram",
    label="memory kinds",
    words=lambda asked: ", ".join(asked.memory_kinds),
)
STRICT_MEMORY_TYPE = Annotation(
    "strict.memory-type",
    truth,
    ("strict_memory",),
    "Refuse the container rather than use other kinds of memory than memory-type names, or more than there is.",
    ("true", "false", "{c0: true}"),
    "dram",
    label="memory kinds",
    words=lambda asked: "required: no other kind, no more than there is" if asked.strict_memory else "",
)
HUGE_PAGES = Annotation(
    "hugepages",
    preferences.choice(HugePageNodes),
    ("huge_pages",),
    "Where the container's huge pages should be, if it has a limit of some. local (without it, too): on the memory "
    "nodes of its pool, and on the nearest others where these have too few; spread: on any node that has some.",
    ("local", "spread", "{c0: spread}"),
    "2Mi",
    label="huge pages",
)
STRICT_HUGE_PAGES = Annotation(
    "strict.hugepages",
    truth,
    ("strict_huge_pages",),
    "Refuse the container rather than have huge pages outside the memory nodes of its pool, or more than there are.",
    ("true", "false", "{c0: true}"),
    "local",
    label="huge pages",
    words=lambda asked: "required on the nodes of its pool" if asked.strict_huge_pages else "",
)

CPU_MEMORY_ROWS: tuple[Annotation[object], ...] = tuple(
    row for row in tuple(globals().values()) if isinstance(row, Annotation)
)
