"""Every metric, one row each: name with its unit, labels with their bound, text. The reference page is made from it.

A name ends in the base unit of Prometheus' naming rules, in ``_total`` (a counter) or in ``_info``; a claim that is
0 or 1 reads as one. No label's values come from pods: they are a closed set, or bounded by the machine.
"""

from dataclasses import dataclass
from typing import Final, Literal

from policies.base import CpuKind
from policies.registry import REASON_CODES as _POLICY_CODES

Kind = Literal["counter", "gauge", "histogram"]
Values = tuple[str, ...]

OTHER: Final = "other"
"""Stands for every value that a closed set does not name."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label: ``values`` are all that it can have, or, where those depend on the machine, ``bound`` says on what."""

    name: str
    values: Values = ()
    bound: str = ""


@dataclass(frozen=True, slots=True, eq=False)  # a row is itself: as a key it costs no comparison of its text
class Metric:
    """One row. ``buckets`` are a histogram's upper bounds; ``zeros`` are label values that are shown from the start.

    A counter that appears with its first event hides that event from ``increase()``; so what alerts look at is there
    before it happens.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    zeros: tuple[Values, ...] = ()


def _ordinary(label: Label) -> tuple[Values, ...]:
    """One series for each value of a label."""
    return tuple((value,) for value in label.values)


# Labels.
REFUSED_CODES: Final[Values] = (
    *("cpu-full", "nothing-shared", "strict-isolated", "strict-conflict", "strict-hints", "strict-memory"),
    *("annotation", "store"),
)
ROLLED_BACK_CODES: Final[Values] = ("runtime-refused", "caller-left", "fault", "not-found")
_OUTCOME = Label("outcome", ("placed", "resized", "replaced", "refused", "rolled_back", "passthrough"))
_REASON = Label("reason", (*_POLICY_CODES, *REFUSED_CODES[-2:], *ROLLED_BACK_CODES, OTHER))
_UPDATE = Label("outcome", ("confirmed", "refused"))
_CHANGE = Label("change", ("placed", "re-placed", "widened", "narrowed", "memory-moved", "warmed", OTHER))
_DRIFT = Label("outcome", ("put_back", "left_alone"))
RELOAD_OUTCOMES: Final[Values] = ("applied", "unchanged", "rejected")
_RELOAD = Label("outcome", RELOAD_OUTCOMES)
_WHERE = Label("where", ("call", "background", "update", "telling", "relay", OTHER))
PARTS: Final[Values] = ("recovery", "runtime", "store", "socket")
_PART = Label("part", (*PARTS, OTHER))
_METHOD = Label("method", bound="the methods of CRI v1, other")
_CODE = Label("code", bound="the 17 names of gRPC's statuses, other, unread, none")
_SIDE = Label("side", ("kubelet", "runtime"))
CPU_KINDS: Final[Values] = ("exclusive", "isolated", "isolated_free", "shared", "reserved", "unused")
_CPU_KIND = Label("kind", CPU_KINDS)
_POOL = Label("pool", bound="the pools of the machine")
_NODE = Label("node", bound="the machine's NUMA nodes with memory")
_MEMORY_KIND = Label("kind", bound="dram, pmem, hbm")
LIVE_STATES: Final[Values] = ("reserved", "pending", "created", "running")
_STATE = Label("state", LIVE_STATES)
_GRANT = Label("kind", tuple(kind.value for kind in CpuKind))
_LEFT = Label("why", ("adopt", "other_manager"))
_COMMAND = Label("outcome", ("ran", "failed"))

DECISION_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1.0)
CALL_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
SAVE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0)

# What is counted, where it happens.
DECISIONS: Final = Metric(
    "cri_proxy_decisions_total",
    "counter",
    "Decisions about containers by what became of them. A place counts once the runtime has made or resized the "
    "container, under the first of its reasons that most places do not have, else pool. passthrough: it was created "
    "with the last known shared set because deciding failed.",
    (_OUTCOME, _REASON),
    zeros=(
        ("placed", "pool"),
        *(("refused", code) for code in REFUSED_CODES),
        *(("rolled_back", code) for code in ROLLED_BACK_CODES),
        ("passthrough", "fault"),
    ),
)
DECISION_SECONDS: Final = Metric(
    "cri_proxy_decision_duration_seconds",
    "histogram",
    "Time that a decision took, a second try after asking the runtime included.",
    buckets=DECISION_BUCKETS,
    zeros=((),),
)
RELEASED: Final = Metric("cri_proxy_grants_released_total", "counter", "Grants that became free again.", zeros=((),))
GRANT_CHANGES: Final = Metric(
    "cri_proxy_grant_changes_total",
    "counter",
    "Containers whose grant changed although nobody asked for it: moved, or their memory widened or narrowed.",
    (_CHANGE,),
    zeros=_ordinary(_CHANGE),
)
ANNOTATIONS_IGNORED: Final = Metric(
    "cri_proxy_annotations_ignored_total", "counter", "Annotations that could not be understood.", zeros=((),)
)
UPDATES: Final = Metric(
    "cri_proxy_updates_total",
    "counter",
    "Updates of containers by UpdateContainerResources of our own: confirmed by the runtime, or refused after every "
    "try (tried again by the slow check).",
    (_UPDATE,),
    zeros=_ordinary(_UPDATE),
)
MEMORY_MOVES: Final = Metric(
    "cri_proxy_memory_moves_total",
    "counter",
    "Confirmed updates that took memory nodes from a running container: the kernel moves its pages.",
    zeros=((),),
)
DRIFTS: Final = Metric(
    "cri_proxy_drifts_total",
    "counter",
    "Cpusets found rewritten by somebody else: put back, or left to the other manager for good.",
    (_DRIFT,),
    zeros=_ordinary(_DRIFT),
)
VIOLATIONS: Final = Metric(
    "cri_proxy_violations_total",
    "counter",
    "Containers that were started although somebody else could still run on CPUs that they own.",
    zeros=((),),
)
FAULTS: Final = Metric(
    "cri_proxy_faults_total",
    "counter",
    "Faults of our own code; the call in hand follows onPolicyError. relay: also clients that broke HTTP/2.",
    (_WHERE,),
    zeros=_ordinary(_WHERE),
)
SAVE_SECONDS: Final = Metric(
    "cri_proxy_store_save_duration_seconds",
    "histogram",
    "Time from asking for a save to its commit on disk, waiting for its turn included; successful ones.",
    buckets=SAVE_BUCKETS,
    zeros=((),),
)
CHECKS_FAILED: Final = Metric(
    "cri_proxy_runtime_checks_failed_total",
    "counter",
    "Times that the runtime could not be asked for its containers.",
    zeros=((),),
)

# What the relay counts.
CALLS: Final = Metric(
    "cri_proxy_relay_calls_total",
    "counter",
    "Calls by CRI method and gRPC status. Of calls that pass untouched the reply is not read: their code is unread, "
    "and they count when they begin. none: an intercepted call that ended without a status of the runtime (cancelled, "
    "past its deadline, connection lost). "
    "Methods of older interfaces are refused as UNIMPLEMENTED, others that CRI v1 does not have pass: both are other.",
    (_METHOD, _CODE),
)
HELD_SECONDS: Final = Metric(
    "cri_proxy_relay_held_duration_seconds",
    "histogram",
    "Time that an intercepted request was held before it went on or was refused: deciding, saving, for StartContainer "
    "the wait for its CPUs.",
    (_METHOD,),
    CALL_BUCKETS,
)
CALL_SECONDS: Final = Metric(
    "cri_proxy_relay_call_duration_seconds",
    "histogram",
    "Time from an intercepted request to the end of its reply, the runtime's own time included.",
    (_METHOD,),
    CALL_BUCKETS,
)
RECEIVED_BYTES: Final = Metric(
    "cri_proxy_relay_received_bytes_total", "counter", "Bytes that came from each side.", (_SIDE,)
)
CONNECTIONS: Final = Metric(
    "cri_proxy_relay_connections", "gauge", "Connections of clients that are open, each with one to the runtime."
)
CALLS_IN_FLIGHT: Final = Metric(
    "cri_proxy_relay_intercepted_calls",
    "gauge",
    "Intercepted calls that are held or wait for their reply. Open streams of untouched calls are not followed.",
)

# The rows whose counts are kept by the journal and by the relay.
JOURNAL_ROWS: Final = (
    *(DECISIONS, DECISION_SECONDS, RELEASED, GRANT_CHANGES, ANNOTATIONS_IGNORED, UPDATES, MEMORY_MOVES, DRIFTS),
    *(VIOLATIONS, FAULTS, SAVE_SECONDS, CHECKS_FAILED),
)
RELAY_ROWS: Final = (HELD_SECONDS, CALL_SECONDS)

# What is read off the node's state at each scrape: what is gone from the state is gone from the answer.
BUILD: Final = Metric(
    "cri_proxy_build_info",
    "gauge",
    "Always 1: the version, the policy in force and the kind of relay.",
    (
        Label("version", bound="one at a time"),
        Label("policy", bound="the policy in force"),
        Label("relay", ("splice", "grpc", OTHER)),
    ),
)
LIVE: Final = Metric("cri_proxy_live", "gauge", "Whether /healthz is good: 1 or 0.")
READY: Final = Metric("cri_proxy_ready", "gauge", "Whether /readyz is good: 1 or 0.")
PART_HEALTHY: Final = Metric(
    "cri_proxy_part_healthy", "gauge", "Whether this part of /readyz is good: 1 or 0.", (_PART,)
)
CONFIG_GENERATION: Final = Metric(
    "cri_proxy_config_generation", "gauge", "How many configurations have been in force since the start."
)
RELOADS: Final = Metric(
    "cri_proxy_config_reloads_total",
    "counter",
    "Changed configurations by what became of them; a rejected one leaves the old one in force.",
    (_RELOAD,),
)
RELOAD_SUCCESSFUL: Final = Metric(
    "cri_proxy_config_last_reload_successful",
    "gauge",
    "0 while the newest configuration was rejected and an older one is in force, else 1.",
)
CONFIG_APPLIED: Final = Metric(
    "cri_proxy_config_applied_timestamp_seconds",
    "gauge",
    "Since when the configuration is in force: the start, or its reload; since the epoch.",
)
CONFIG_IS_KEPT: Final = Metric(
    "cri_proxy_config_kept",
    "gauge",
    "1 while the configuration in force is the one from before the start, because the file was invalid then, else 0.",
)
CPUS: Final = Metric(
    "cri_proxy_cpus",
    "gauge",
    "Available CPUs of the node: owned alone (exclusive, isolated), free isolated ones, shared, reserved for the "
    "system, and unused (owned by nobody and shared by nobody). A CPU is of one kind.",
    (_CPU_KIND,),
)
POOL_CPUS: Final = Metric(
    "cri_proxy_pool_cpus",
    "gauge",
    "The same inside each pool. A pool's CPUs are its parent's too: do not add pools up.",
    (_POOL, _CPU_KIND),
)
POOL_SHARED_FREE: Final = Metric(
    "cri_proxy_pool_shared_free_cpus", "gauge", "CPU time that a pool can still grant from its shared set.", (_POOL,)
)
POOL_SHARED_GRANTED: Final = Metric(
    "cri_proxy_pool_shared_granted_cpus",
    "gauge",
    "CPU time granted from shared sets in a pool and the pools below it.",
    (_POOL,),
)
POOL_MEMORY: Final = Metric(
    "cri_proxy_pool_memory_capacity_bytes", "gauge", "Memory of a pool's memory nodes (its zone).", (_POOL,)
)
POOL_MEMORY_FREE: Final = Metric(
    "cri_proxy_pool_memory_free_bytes",
    "gauge",
    "Of it, what is not promised to containers that can only be in there.",
    (_POOL,),
)
NODE_MEMORY: Final = Metric(
    "cri_proxy_memory_node_capacity_bytes", "gauge", "Memory of a NUMA node.", (_NODE, _MEMORY_KIND)
)
NODE_PROMISED: Final = Metric(
    "cri_proxy_memory_node_promised_bytes",
    "gauge",
    "Memory promised to containers that have no other NUMA node.",
    (_NODE, _MEMORY_KIND),
)
NODE_WIDELY_PROMISED: Final = Metric(
    "cri_proxy_memory_node_widely_promised_bytes",
    "gauge",
    "Memory promised to containers that may use this NUMA node and others: any part of it may come from here.",
    (_NODE, _MEMORY_KIND),
)
NODE_CONTAINERS: Final = Metric(
    "cri_proxy_memory_node_containers", "gauge", "Containers that may use a NUMA node's memory.", (_NODE, _MEMORY_KIND)
)
CONTAINERS: Final = Metric(
    "cri_proxy_containers",
    "gauge",
    "Containers that hold a grant, by state (pending: the runtime has not said whether it was created) and kind.",
    (_STATE, _GRANT),
)
UNPLACED: Final = Metric(
    "cri_proxy_unplaced_containers", "gauge", "Containers that run without a decision because deciding failed."
)
LEFT_ALONE: Final = Metric(
    "cri_proxy_left_alone_containers",
    "gauge",
    "Containers that are not pinned by us: by the option adopt, or because another manager keeps rewriting them.",
    (_LEFT,),
)
LATE: Final = Metric(
    "cri_proxy_update_waiting_containers",
    "gauge",
    "Containers whose confirmed CPUs or memory nodes are not what they should be.",
)
UPDATE_REFUSED: Final = Metric(
    "cri_proxy_update_refused_containers",
    "gauge",
    "Containers whose update the runtime refuses; the slow check tries again.",
)
VIOLATED: Final = Metric(
    "cri_proxy_violated_containers",
    "gauge",
    "Running containers whose own CPUs are not theirs alone: somebody else is still on them.",
)
REACHABLE: Final = Metric(
    "cri_proxy_reachable_containers",
    "gauge",
    "Running containers with CPUs of their own that others can run on who are not held by our pinning: preserved, left "
    "alone, or fled.",
)
FLED: Final = Metric(
    "cri_proxy_fled_containers",
    "gauge",
    "Containers whose processes the kernel moved out of their cgroup, because all its CPUs went offline (cgroup v1).",
)
DEAD_CPUS: Final = Metric(
    "cri_proxy_dead_held_cpus",
    "gauge",
    "CPUs owned by containers that the runtime's last list did not have alive. Anything but 0 is a leak.",
)
UPDATE_CALLS: Final = Metric(
    "cri_proxy_update_calls_total", "counter", "UpdateContainerResources calls that we sent, failed tries included."
)
SAVES_FAILED: Final = Metric(
    "cri_proxy_store_errors_total", "counter", "Saves that failed or took too long; see onStoreError."
)
TOLD: Final = Metric(
    "cri_proxy_told_files_written_total", "counter", "Times that a container's files behind /.cri-proxy were renewed."
)
TELLING_FAILED: Final = Metric("cri_proxy_told_files_failed_total", "counter", "Times that they could not be written.")
COMMANDS: Final = Metric(
    "cri_proxy_notify_commands_total", "counter", "Commands of notify-exec that ended, by outcome.", (_COMMAND,)
)
PROCESS_START: Final = Metric("process_start_time_seconds", "gauge", "When this process started, since the epoch.")
PROCESS_CPU: Final = Metric("process_cpu_seconds_total", "counter", "CPU time of this process, user and system.")
PROCESS_MEMORY: Final = Metric("process_resident_memory_bytes", "gauge", "Resident memory of this process.")
PROCESS_FILES: Final = Metric("process_open_fds", "gauge", "File descriptors that this process has open.")
BLOCKS: Final = Metric(
    "cri_proxy_allocated_blocks",
    "gauge",
    "Blocks of memory that Python objects of this process take up. What grows for days while the containers stay as "
    "many is a leak, before the memory of the process shows it.",
)
TASKS: Final = Metric("cri_proxy_tasks", "gauge", "Asynchronous tasks of this process that have not ended.")

TABLE: Final[tuple[Metric, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
