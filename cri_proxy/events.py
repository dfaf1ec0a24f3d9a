"""Event names of the daemon's log lines, as constants. Everything else about an event is a field of its line."""

from typing import Final

# Start and stop.
READY: Final = "ready"  # decisions are made from here on
RECOVERED: Final = "recovered"  # the saved state was compared with the runtime
STOPPING: Final = "stopping"
TAKING_OVER: Final = "taking_over"  # another process was asked to hand over; calls without a decision are served
TAKEN_OVER: Final = "taken_over"  # the other process has released the lock
HANDING_OVER: Final = "handing_over"  # another process has our sockets' names and asks for the lock
HANDED_OVER: Final = "handed_over"  # the other process decides; calls in flight here are completed
NOT_HANDED_OVER: Final = "not_handed_over"  # the process that asked is gone
CONFIG_WARNING: Final = "config_warning"
MACHINE_NOTE: Final = "machine_note"  # a fallback that discovery took
STORE_DAMAGED: Final = "store_damaged"  # or of a newer program: moved aside; rebuilt from the runtime
HTTP_UNAVAILABLE: Final = "http_unavailable"  # the address is in use or missing; tried again
HTTP_AVAILABLE: Final = "http_available"  # listening on an address that was unavailable at first
HTTP_FILES_REJECTED: Final = "http_files_rejected"  # certificate, key or tokens cannot be used; the former ones stay
HTTP_FILES_APPLIED: Final = "http_files_applied"  # certificate, key and tokens can be used again
RUNTIME_AWAY: Final = "runtime_away"
POD_RESOURCES_AWAY: Final = "pod_resources_away"  # the kubelet does not answer where devices are

# One per decision.
DECIDED: Final = "decided"  # the whole decision, for debugging; its outcome is not known yet
PLACED: Final = "placed"
RESIZED: Final = "resized"  # a live container has its new size
REFUSED: Final = "refused"
REPLACED: Final = "replaced"  # placed again: its grant was no longer legal
UNREADABLE: Final = "unreadable"  # a request that does not parse: passed on for the runtime to refuse
UNREADABLE_REPLY: Final = "unreadable_reply"  # an answer of the runtime cannot be read, in whole or in part
UNPLACED: Final = "unplaced"  # passed on without a decision, placed later
NOT_ADOPTED: Final = "not_adopted"
RELEASED: Final = "released"
ANNOTATION_IGNORED: Final = "annotation_ignored"
DEVICES_MISSING: Final = "devices_missing"  # CDI files did not answer or are garbage: created without device nodes
DEVICES_LEARNED: Final = "devices_learned"  # a running container has devices from others that it did not hold yet
RUNTIME_CDI: Final = "runtime_cdi"  # how containers get CDI devices with this runtime: at start, and when it changes
RUNTIME_CONFIG: Final = "runtime_config"  # the cgroup driver, answered in the place of a runtime that cannot
CDI_IGNORED: Final = "cdi_ignored"  # the kubelet asks for CDI devices, and the runtime adds none
HINT_MISSING: Final = "hint_missing"  # files of the pod's did not answer: placed without their locality
RECORD_IGNORED: Final = "record_ignored"  # a saved decision cannot be read: explain does not show it

# Effects.
UPDATED: Final = "updated"
ROLLED_BACK: Final = "rolled_back"  # the runtime did not create it: nothing is held
UPDATE_FAILED: Final = "update_failed"
STEPPED_ASIDE: Final = "stepped_aside"  # off its CPUs for now: it and others waited for each other
MEMORY_MOVED: Final = "memory_moved"  # back to fewer memory nodes, or its cold start is over
RESOURCE_FILES_FAILED: Final = "resource_files_failed"  # the files in /.cri-proxy could not be written
NOTIFIED: Final = "notified"  # the notify-exec command ran in a container
NOTIFY_FAILED: Final = "notify_failed"
VIOLATION: Final = "violation"  # a container started while another one could use its own CPUs

# Faults.
FAULT: Final = "fault"  # an internal error
HELPERS_LOST: Final = "helpers_lost"  # the launcher of helper processes has ended; it is replaced, else the daemon ends
HELPERS_BACK: Final = "helpers_back"  # another launcher has taken its place
STARVED: Final = "starved"  # of CPU time: new connections wait, and a restart would not help
SOCKET_LOST: Final = "socket_lost"  # removed or replaced: new clients cannot connect until a restart
STORE_DEGRADED: Final = "store_degraded"  # a save failed
CHECK_FAILED: Final = "check_failed"  # the slow check
UNKNOWN_CONTAINERS: Final = "unknown_containers"
DRIFTED: Final = "drifted"  # another program rewrote a cpuset; put back
RUNC_MASKS: Final = "runc_masks"  # runc gives systemd CPU masks with reversed bytes: a daemon-reload moves containers
ESCAPED: Final = "escaped"  # the kernel moved a container's processes out of its cgroup
NARROWED: Final = "narrowed"  # a container's first process has inherited the runtime's CPU affinity
LEFT_TO_ANOTHER: Final = "left_to_another"  # another manager keeps rewriting a cpuset: left alone from now on

# Changes from outside.
MACHINE_CHANGED: Final = "machine_changed"  # CPUs, memory nodes or PCI devices came or went
MACHINE_UNREADABLE: Final = "machine_unreadable"  # discovery failed; the machine as last found stays in use
CONFIG_RELOADED: Final = "config_reloaded"  # a changed configuration is active, or means the same as the old one
CONFIG_REJECTED: Final = "config_rejected"  # a changed configuration is invalid; the old one stays active
CONFIG_KEPT: Final = "config_kept"  # started with the last valid configuration because the file is invalid
CONFIG_NOT_KEPT: Final = "config_not_kept"  # the active configuration could not be saved for later starts
INVENTORY_RELOADED: Final = "inventory_reloaded"  # a changed inventory file is in force, or means the same as before
INVENTORY_REJECTED: Final = "inventory_rejected"  # the inventory file cannot be used; its last good content stays
INVENTORY_UNREADABLE: Final = "inventory_unreadable"  # the inventory file does not answer; what it said stays
INVENTORY_NOT_KEPT: Final = "inventory_not_kept"  # what it says could not be saved for later starts
CLAIM_KINDS_NOT_KEPT: Final = "claim_kinds_not_kept"  # which CDI kinds bring claims could not be saved or read
HEALTH_UNKNOWN: Final = "health_unknown"  # the file or command of the devices' health fails; what was known stays
DEVICE_UNHEALTHY: Final = "device_unhealthy"  # given to no further container; who has it keeps it
DEVICE_HEALTHY: Final = "device_healthy"  # again
DEVICES_DISAGREE: Final = "devices_disagree"  # two sources state differently what or where a device is
COST_FILES_RELOADED: Final = "cost_files_reloaded"  # changed cost files are in force, or mean the same as before
COST_FILE_REJECTED: Final = "cost_file_rejected"  # a cost file cannot be used; its last good content stays, if any
COST_FILES_UNREADABLE: Final = "cost_files_unreadable"  # the directory of the cost files; what they said stays
COST_FILES_SILENT: Final = "cost_files_silent"  # devices without costs seem the nearest beside others that have some
COST_FILES_NOT_KEPT: Final = "cost_files_not_kept"  # what they say could not be saved for later starts
CONFIG_WRITTEN: Final = "config_written"  # config-agent: the host's copy equals the ConfigMap
CONFIG_NOT_WRITTEN: Final = "config_not_written"  # config-agent: the former copy stays
CONFIG_HELD: Final = "config_held"  # config-agent: a changed ConfigMap waits for the canary nodes
CONFIG_STOPPED: Final = "config_stopped"  # config-agent: a canary rejects it, or has not taken it in time
NODE_UNREAD: Final = "node_unread"  # config-agent: the labels of the Node cannot be read; the last group stays
NODE_TOPOLOGY_UNWRITTEN: Final = "node_topology_unwritten"  # the file of nodeTopologyFile; tried again
KUBELET_MANAGER: Final = "kubelet_manager"  # the kubelet pins CPUs or memory itself

# The device plugin.
REGISTERED: Final = "registered"  # the kubelet knows a resource
NOT_REGISTERED: Final = "not_registered"  # tried again, with longer pauses, and when the kubelet has another socket
ALLOCATED: Final = "allocated"  # the kubelet has given devices to a container
ALLOCATION_REFUSED: Final = "allocation_refused"  # the kubelet asked for devices that cannot be had: the pod fails
PREFERENCE_LATE: Final = "preference_late"  # the search for the best devices took too long: the kubelet takes any
DEVICES_RELOADED: Final = "devices_reloaded"  # changed files of the device plugin are in force
DEVICE_FILE_REJECTED: Final = "device_file_rejected"  # one of them cannot be used; its last good content stays

# The scheduler extender, a process of its own.
SERVING: Final = "serving"
NODES_FILTERED: Final = "nodes_filtered"  # for a pod with GPUs
NODES_RANKED: Final = "nodes_ranked"  # for a pod with GPUs, by the links between them
LINKS_UNREADABLE: Final = "links_unreadable"  # what a node publishes of its links; told once
QUESTION_REFUSED: Final = "question_refused"  # a request that is none of the scheduler's

# The exporter, a process of its own.
NODE_TOPOLOGY_EXPORTED: Final = "node_topology_exported"  # the API server has the node's object as it is now
NOT_EXPORTED: Final = "not_exported"  # something that the cluster should be told; tried again, told once
EXPORTED_AGAIN: Final = "exported_again"
EVENTS_LEFT_OUT: Final = "events_left_out"  # more than may be written at a time happened to pods
