"""Declare every metric: name with unit, labels with their bounds, help text; /metrics and the reference page read it.

A name ends in the base unit of Prometheus' naming rules, in ``_total`` (a counter) or in ``_info``; a gauge that is
0 or 1 reads as a statement. No label's values come from pods: they are a closed set, or bounded by the machine.
"""

from typing import Final

from cri_proxy.metrics.metric import OTHER, Label, Metric, Values, counter, gauge, histogram
from policies.base import CpuKind
from policies.devices import DEVICE_TYPES
from policies.registry import REASON_CODES as _POLICY_CODES

# Labels.
REFUSED_CODES: Final[Values] = (
    *("cpu-full", "nothing-shared", "strict-isolated", "strict-conflict", "strict-hints"),
    *("strict-memory", "strict-hugepages"),
    *("annotation", "store"),
)
ROLLED_BACK_CODES: Final[Values] = ("runtime-refused", "cdi", "caller-left", "fault", "not-found")
RELOAD_OUTCOMES: Final[Values] = ("applied", "unchanged", "rejected")
_RELOAD = Label("outcome", RELOAD_OUTCOMES)
COST_FILE_STATES: Final[Values] = ("in_force", "kept", "rejected")
INVENTORY_STATES: Final[Values] = ("free", "held", "unhealthy", "cut", "missing")
PARTS: Final[Values] = ("recovery", "runtime", "store", "socket", "helpers", "pod resources")
_METHOD = Label("method", bound="the methods of CRI v1, other")
MALFORMED_REASONS: Final[Values] = ("path", "header_size", "stream_id", "compression", "flood", "protocol")
CPU_KINDS: Final[Values] = ("exclusive", "isolated", "isolated_free", "shared", "reserved", "unused")
_CPU_KIND = Label("kind", CPU_KINDS)
_POOL = Label("pool", bound="the pools of the machine")
_NUMA_NODE = Label("numa_node", bound="the machine's NUMA nodes with memory")
_PAGE_SIZE = Label("page_size", bound="the kernel's sizes of huge pages: 2Mi, 1Gi")
_MEMORY_KIND = Label("kind", bound="dram, pmem, hbm")
LIVE_STATES: Final[Values] = ("reserved", "pending", "created", "running")
FILE_OWNERS: Final[Values] = ("pod", "host")

DECISION_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1.0)
CALL_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

# Counted where it happens.
DECISIONS: Final = counter(
    "cri_proxy_decisions_total",
    "Decisions about containers by outcome. A placement counts once the runtime has created or resized the container, "
    "under its first reason that most placements do not have, else pool. passthrough: the container was created with "
    "the last known shared set because the decision failed.",
    Label("outcome", ("placed", "resized", "replaced", "refused", "rolled_back", "passthrough")),
    Label("reason", (*_POLICY_CODES, *REFUSED_CODES[-2:], *ROLLED_BACK_CODES, OTHER)),
    zeros=(
        ("placed", "pool"),
        *(("refused", code) for code in REFUSED_CODES),
        *(("rolled_back", code) for code in ROLLED_BACK_CODES),
        ("passthrough", "fault"),
    ),
)
DECISION_SECONDS: Final = histogram(
    "cri_proxy_decision_duration_seconds",
    "Duration of a decision, including a second attempt after asking the runtime.",
    DECISION_BUCKETS,
)
RELEASED: Final = counter("cri_proxy_grants_released_total", "Grants released.")
GRANT_CHANGES: Final = counter(
    "cri_proxy_grant_changes_total",
    "Grants that changed without a request: the container was moved, or its memory nodes were widened or narrowed.",
    Label(
        "change",
        ("placed", "re-placed", "rebalanced", "widened", "narrowed", "memory-moved", "cold_start_ended", OTHER),
    ),
)
ANNOTATIONS_IGNORED: Final = counter("cri_proxy_annotations_ignored_total", "Annotations that could not be parsed.")
HINTS_MISSING: Final = counter(
    "cri_proxy_device_hints_missing_total",
    "Lookups of device or mount locality that timed out: the container was placed without them.",
)
UPDATES: Final = counter(
    "cri_proxy_updates_total",
    "Updates of containers that the daemon sent by UpdateContainerResources: confirmed by the runtime, or refused "
    "after every attempt (the slow check tries again).",
    Label("outcome", ("confirmed", "refused")),
)
MEMORY_MOVES: Final = counter(
    "cri_proxy_memory_moves_total",
    "Confirmed updates that took memory nodes from a running container: the kernel migrates its pages.",
)
DRIFTS: Final = counter(
    "cri_proxy_drifts_total",
    "Cpusets found rewritten by another program: put back, or left to the other manager for good. runc_masks: by "
    "systemd, from a CPU mask whose bytes runc before 1.1.6 has reversed; these are always put back.",
    *(Label("outcome", ("put_back", "left_alone")), Label("cause", ("other", "runc_masks"))),
    zeros=(("put_back", "other"), ("left_alone", "other"), ("put_back", "runc_masks")),
)
VIOLATIONS: Final = counter(
    "cri_proxy_violations_total",
    "Containers that were started while another one could still run on CPUs that they own.",
)
FAULTS: Final = counter(
    "cri_proxy_faults_total",
    "Internal errors of cri-proxy; the call at hand follows onPolicyError. relay: also clients that broke HTTP/2.",
    Label("where", ("call", "background", "update", "resource_files", "relay", OTHER)),
)
SAVE_SECONDS: Final = histogram(
    "cri_proxy_store_save_duration_seconds",
    "Duration of a successful save that a call waits for, from the request to the commit on disk, with its time in the "
    "queue.",
    (0.001, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0),
)
CHECKS_FAILED: Final = counter(
    "cri_proxy_runtime_checks_failed_total", "Failed attempts to list the containers of the runtime."
)

# Counted by the relay.
CALLS: Final = counter(
    "cri_proxy_relay_calls_total",
    "Calls by CRI method and gRPC status. unread: a call that passes untouched, counted when it begins, since its "
    "reply is not read. none: an intercepted call that ended without a status from the runtime (cancelled, past its "
    "deadline, connection lost). other: methods that CRI v1 does not have; those of older interfaces are refused as "
    "UNIMPLEMENTED, the rest pass.",
    _METHOD,
    Label("code", bound="the 17 names of gRPC's statuses, other, unread, none"),
)
HELD_SECONDS: Final = histogram(
    "cri_proxy_relay_held_duration_seconds",
    "Time that an intercepted request was held before it was forwarded or refused: decision, save, and for "
    "StartContainer the wait for its CPUs.",
    CALL_BUCKETS,
    _METHOD,
)
CALL_SECONDS: Final = histogram(
    "cri_proxy_relay_call_duration_seconds",
    "Duration of an intercepted call, from the request to the end of the reply, including the runtime's own time.",
    CALL_BUCKETS,
    _METHOD,
)
MALFORMED: Final = counter(
    "cri_proxy_relay_malformed_requests_total",
    "Malformed requests and frames from clients, by reason. The call was refused (path, header_size, stream_id), or "
    "the connection was closed (compression, flood, protocol).",
    Label("reason", MALFORMED_REASONS),
)
RECEIVED_BYTES: Final = counter(
    "cri_proxy_relay_received_bytes_total", "Bytes received from each side.", Label("side", ("kubelet", "runtime"))
)
CONNECTIONS: Final = gauge(
    "cri_proxy_relay_connections", "Open connections of clients, each with a connection to the runtime."
)
CALLS_IN_FLIGHT: Final = gauge(
    "cri_proxy_relay_intercepted_calls",
    "Intercepted calls that are held or wait for their reply. Calls that pass untouched are not included.",
)

# The rows whose counts are kept by the journal and by the relay.
JOURNAL_ROWS: Final = (
    *(DECISIONS, DECISION_SECONDS, RELEASED, GRANT_CHANGES, ANNOTATIONS_IGNORED, UPDATES, MEMORY_MOVES, DRIFTS),
    *(VIOLATIONS, FAULTS, SAVE_SECONDS, CHECKS_FAILED, HINTS_MISSING),
)
RELAY_ROWS: Final = (HELD_SECONDS, CALL_SECONDS, MALFORMED)

# Measured by the daemon.
LOOP_LAG: Final = histogram(
    "cri_proxy_event_loop_lag_seconds",
    "How late the event loop ran a timer, measured four times a second, once while it is idle: a call may wait that "
    "long before anything is done for it. A long lag is a long computation, or a daemon that got no CPU.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0),
)
CPU_WAIT: Final = counter(
    "cri_proxy_event_loop_cpu_wait_seconds_total",
    "How long the event loop's thread was ready to run and got no CPU: other processes had it, or a limit was used up.",
)

# Read off the node's state at each scrape: series of pools and nodes that are gone disappear.
BUILD: Final = gauge(
    "cri_proxy_build_info",
    "Always 1: the version, the active policy and the kind of relay.",
    Label("version", bound="one at a time"),
    Label("policy", bound="the policy in force"),
    Label("relay", ("splice", "grpc", OTHER)),
)
LIVE: Final = gauge("cri_proxy_live", "1 while /healthz succeeds, else 0.")
READY: Final = gauge("cri_proxy_ready", "1 while /readyz succeeds, else 0.")
PART_HEALTHY: Final = gauge(
    "cri_proxy_part_healthy", "1 while this part of /readyz is healthy, else 0.", Label("part", (*PARTS, OTHER))
)
CONFIG_GENERATION: Final = gauge(
    "cri_proxy_config_generation", "Number of configurations that have been active since the start."
)
CONFIG_INFO: Final = gauge(
    "cri_proxy_config_info",
    "1, with the SHA-256 of the configuration file in use (none: the command line alone) and the program's version.",
    Label("digest", bound="one at a time"),
    Label("version", bound="one at a time"),
)
RELOADS: Final = counter(
    "cri_proxy_config_reloads_total",
    "Changed configurations by outcome; after a rejected one the old one stays active.",
    _RELOAD,
)
RELOAD_SUCCESSFUL: Final = gauge(
    "cri_proxy_config_last_reload_successful",
    "0 while the newest configuration is rejected and an older one is active, else 1.",
)
CONFIG_APPLIED: Final = gauge(
    "cri_proxy_config_applied_timestamp_seconds",
    "When the configuration became active, by a start or a reload; since the epoch.",
)
CONFIG_IS_KEPT: Final = gauge(
    "cri_proxy_config_kept",
    "1 while the last valid configuration is active because the file was invalid at the start, else 0.",
)
COST_FILES: Final = gauge(
    "cri_proxy_cost_files",
    "Cost files by the content in use: the present one (in_force), the last good one (kept) or none (rejected).",
    Label("state", COST_FILE_STATES),
)
COST_DEVICES: Final = gauge("cri_proxy_cost_devices", "Devices that the cost files in force list.")
COST_RELOADS: Final = counter(
    "cri_proxy_cost_reloads_total",
    "Changes of the cost files by outcome; rejected: a file of them cannot be used, the others are applied.",
    _RELOAD,
)
COST_RELOAD_SUCCESSFUL: Final = gauge(
    "cri_proxy_cost_last_reload_successful",
    "0 while the present content of a cost file, or the directory as a whole, cannot be used, else 1.",
)
INVENTORY_DEVICES: Final = gauge(
    "cri_proxy_inventory_devices",
    "Devices of the inventory by type: free, held (in part or as a whole), unhealthy and not held, cut into MIG "
    "instances of which none is held, or missing: held, but not listed any more.",
    Label("type", DEVICE_TYPES),
    Label("state", INVENTORY_STATES),
)
UNHEALTHY_DEVICES: Final = gauge(
    "cri_proxy_unhealthy_devices",
    "Devices of the inventory that are unhealthy, held or not.",
    Label("type", DEVICE_TYPES),
)
HEALTH_IS_KNOWN: Final = gauge(
    "cri_proxy_device_health_last_read_successful",
    "0 while the file or command of the devices' health fails, and what was known last stays, else 1.",
)
DEVICES_HELD_TWICE: Final = gauge(
    "cri_proxy_twice_held_devices",
    "Devices that several containers hold which should not share them, as one by annotation and one from the kubelet.",
)
INVENTORY_IS_GOOD: Final = gauge(
    "cri_proxy_inventory_last_reload_successful",
    "0 while the present content of the inventory file cannot be used, else 1.",
)
INVENTORY_RELOADS: Final = counter(
    "cri_proxy_inventory_reloads_total",
    "Changes of the inventory file by outcome; rejected: it cannot be used, and its last good content stays.",
    _RELOAD,
)
CPUS: Final = gauge(
    "cri_proxy_cpus",
    "Available CPUs of the node: owned by one container (exclusive, isolated), free isolated ones, shared, reserved "
    "for the system, and unused (neither owned nor shared). Each CPU is of one kind.",
    _CPU_KIND,
)
POOL_CPUS: Final = gauge(
    "cri_proxy_pool_cpus",
    "Available CPUs of each pool by kind. A pool's CPUs belong to its parent as well: do not add pools up.",
    _POOL,
    _CPU_KIND,
)
POOL_SHARED_FREE: Final = gauge(
    "cri_proxy_pool_shared_free_cpus", "CPU time that a pool can still grant from its shared set.", _POOL
)
POOL_SHARED_GRANTED: Final = gauge(
    "cri_proxy_pool_shared_granted_cpus", "CPU time granted from shared sets in a pool and the pools below it.", _POOL
)
POOL_MEMORY: Final = gauge("cri_proxy_pool_memory_capacity_bytes", "Memory of a pool's memory nodes (its zone).", _POOL)
POOL_MEMORY_FREE: Final = gauge(
    "cri_proxy_pool_memory_free_bytes", "Memory of a pool that is not promised to containers confined to it.", _POOL
)
NODE_MEMORY: Final = gauge(
    "cri_proxy_memory_node_capacity_bytes", "Memory of a NUMA node outside its huge pages.", _NUMA_NODE, _MEMORY_KIND
)
NODE_PROMISED: Final = gauge(
    "cri_proxy_memory_node_promised_bytes",
    "Memory promised to containers that have no other NUMA node.",
    _NUMA_NODE,
    _MEMORY_KIND,
)
NODE_WIDELY_PROMISED: Final = gauge(
    "cri_proxy_memory_node_widely_promised_bytes",
    "Memory promised to containers that may use this NUMA node and others: any part may come from this one.",
    _NUMA_NODE,
    _MEMORY_KIND,
)
NODE_CONTAINERS: Final = gauge(
    "cri_proxy_memory_node_containers", "Containers that may use memory of a NUMA node.", _NUMA_NODE, _MEMORY_KIND
)
HUGE_PAGES: Final = gauge(
    "cri_proxy_hugepages_capacity_bytes", "Huge pages of a NUMA node, those in use too.", _NUMA_NODE, _PAGE_SIZE
)
HUGE_PAGES_PROMISED: Final = gauge(
    "cri_proxy_hugepages_promised_bytes",
    "Huge pages promised to containers that have no other NUMA node.",
    _NUMA_NODE,
    _PAGE_SIZE,
)
HUGE_PAGES_WIDELY_PROMISED: Final = gauge(
    "cri_proxy_hugepages_widely_promised_bytes",
    "Huge pages promised to containers that may use this NUMA node and others: any part may come from this one.",
    _NUMA_NODE,
    _PAGE_SIZE,
)
CONTAINERS: Final = gauge(
    "cri_proxy_containers",
    "Containers that hold a grant, by state (pending: creation not confirmed by the runtime) and kind.",
    Label("state", LIVE_STATES),
    Label("kind", tuple(kind.value for kind in CpuKind)),
)
OVERCOMMITTED: Final = gauge(
    "cri_proxy_overcommitted_containers",
    "Containers that share CPUs without a CPU reservation, because no pool has the CPU time that they request: "
    "admitted by onShortage, or squeezed by a change of options or CPUs.",
)
UNPLACED: Final = gauge(
    "cri_proxy_unplaced_containers", "Containers that run without a decision because the decision failed."
)
LEFT_ALONE: Final = gauge(
    "cri_proxy_left_alone_containers",
    "Containers that are not pinned: by the option adopt, because CPUs that another allocator chose for them are not "
    "available, or because another manager keeps rewriting their cpusets.",
    Label("why", ("adopt", "claim", "other_manager")),
)
FILES_HANGING: Final = gauge(
    "cri_proxy_hung_file_calls",
    "Calls about files that have not ended in time; their mount or directory is not asked again until they do. Files "
    "of pods (volumes, devices) or of the host (state, kubelet).",
    Label("owner", FILE_OWNERS),
)
LATE: Final = gauge(
    "cri_proxy_update_waiting_containers",
    "Containers whose confirmed CPUs or memory nodes differ from the wanted ones.",
)
UPDATE_REFUSED: Final = gauge(
    "cri_proxy_update_refused_containers", "Containers whose update the runtime refuses; the slow check tries again."
)
UNANSWERED: Final = gauge(
    "cri_proxy_unanswered_calls",
    "Starts and updates of containers that the runtime has not answered for more than 5 seconds; a start counts until "
    "its end is known, also when its caller has left. Containers that need those CPUs are placed elsewhere or refused.",
    Label("method", ("StartContainer", "UpdateContainerResources")),
)
VIOLATED: Final = gauge(
    "cri_proxy_violated_containers",
    "Running containers whose own CPUs another container still uses, or that another manager keeps on other CPUs.",
)
REACHABLE: Final = gauge(
    "cri_proxy_reachable_containers",
    "Running containers whose own CPUs can be used by containers that cri-proxy does not pin: preserved, left alone, "
    "or escaped.",
)
ESCAPED: Final = gauge(
    "cri_proxy_escaped_containers",
    "Containers whose processes the kernel moved out of their cgroup, because all its CPUs went offline (cgroup v1).",
)
MISREAD: Final = gauge(
    "cri_proxy_misread_scope_containers",
    "Containers whose systemd scope has other CPUs or memory nodes than the runtime was given, because runc before "
    "1.1.6 reverses the bytes of masks: the next daemon-reload moves them until they are put back.",
)
NARROWED: Final = gauge(
    "cri_proxy_narrowed_containers",
    "Containers whose first process, once started, ran on a part of their CPUs, by the CPU affinity of the runtime.",
)
DEAD_CPUS: Final = gauge(
    "cri_proxy_dead_held_cpus",
    "CPUs owned by containers that had ended in the runtime's last list. Any value but 0 is a leak.",
)
UPDATE_CALLS: Final = counter(
    "cri_proxy_update_calls_total", "UpdateContainerResources calls that the daemon sent, including failed attempts."
)
SAVES_FAILED: Final = counter("cri_proxy_store_errors_total", "Saves that failed or took too long; see onStoreError.")
RESOURCE_FILES: Final = counter(
    "cri_proxy_resource_files_written_total", "Writes of a container's resource files (/.cri-proxy)."
)
RESOURCE_FILES_FAILED: Final = counter(
    "cri_proxy_resource_files_failed_total", "Failed writes of a container's resource files."
)
COMMANDS: Final = counter(
    "cri_proxy_notify_commands_total",
    "Commands of notify-exec that ended, by outcome.",
    Label("outcome", ("ran", "failed")),
)
PROCESS_START: Final = gauge("process_start_time_seconds", "Start time of this process since the epoch.")
PROCESS_CPU: Final = counter("process_cpu_seconds_total", "CPU time of this process, user and system.")
PROCESS_MEMORY: Final = gauge("process_resident_memory_bytes", "Resident memory of this process.")
PROCESS_FILES: Final = gauge("process_open_fds", "Open file descriptors of this process.")
BLOCKS: Final = gauge(
    "cri_proxy_allocated_blocks",
    "Memory blocks allocated by Python objects of this process. Growth over days at a constant number of containers is "
    "a leak, visible here before it shows in the resident memory.",
)
TASKS: Final = gauge("cri_proxy_tasks", "Unfinished asynchronous tasks of this process.")

TABLE: Final[tuple[Metric, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
