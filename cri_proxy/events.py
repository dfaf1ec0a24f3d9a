"""Names of the events that are logged. Everything else about an event is a field."""

from typing import Final

# Start and stop.
READY: Final = "ready"  # decisions are made from here on
RECOVERED: Final = "recovered"  # the saved state was held against the runtime
STOPPING: Final = "stopping"
TAKING_OVER: Final = "taking_over"  # another process was asked to hand over; what needs no decision is served
TAKEN_OVER: Final = "taken_over"  # it has given the lock away
HANDING_OVER: Final = "handing_over"  # another process has our sockets' names and asks for the lock
HANDED_OVER: Final = "handed_over"  # it decides; what clients still have under way here goes on for a while
NOT_HANDED_OVER: Final = "not_handed_over"  # nobody is there who could take over
CONFIG_WARNING: Final = "config_warning"
MACHINE_NOTE: Final = "machine_note"  # a fallback that discovery took
STORE_DAMAGED: Final = "store_damaged"  # moved aside; rebuilt from the runtime
HTTP_UNAVAILABLE: Final = "http_unavailable"  # tried again
HTTP_AVAILABLE: Final = "http_available"  # an address that could not be had at first
RUNTIME_AWAY: Final = "runtime_away"
POD_RESOURCES_AWAY: Final = "pod_resources_away"  # the kubelet does not say where devices are

# One per decision.
DECIDED: Final = "decided"  # the whole of it, for who debugs: nobody knows yet what comes of it
PLACED: Final = "placed"
RESIZED: Final = "resized"  # a live container has its new size
REFUSED: Final = "refused"
REPLACED: Final = "replaced"  # a saved grant was no longer legal
UNREADABLE: Final = "unreadable"  # a request that is no message of its kind: the runtime's to refuse
UNPLACED: Final = "unplaced"  # let through without a decision, placed later
NOT_ADOPTED: Final = "not_adopted"
RELEASED: Final = "released"
ANNOTATION_IGNORED: Final = "annotation_ignored"
RECORD_IGNORED: Final = "record_ignored"  # a saved decision that cannot be read: explain does not know it

# Effects.
UPDATED: Final = "updated"
ROLLED_BACK: Final = "rolled_back"  # the runtime did not create it: nothing is held
UPDATE_FAILED: Final = "update_failed"
PARKED: Final = "parked"  # stepped aside until its own CPUs are free: others and it waited for each other
MEMORY_MOVED: Final = "memory_moved"  # back to fewer memory nodes, or its cold start is over
NOT_TOLD: Final = "not_told"  # files behind /.cri-proxy could not be written: the container runs without news
NOTIFIED: Final = "notified"  # a container's own command heard of its new resources
NOTIFY_FAILED: Final = "notify_failed"
VIOLATION: Final = "violation"  # exclusive CPUs that somebody else can still reach

# Faults.
FAULT: Final = "fault"  # our own code failed
STORE_DEGRADED: Final = "store_degraded"  # a save failed
CHECK_FAILED: Final = "check_failed"  # the slow check
UNKNOWN_CONTAINERS: Final = "unknown_containers"
DRIFTED: Final = "drifted"  # somebody else rewrote a cpuset; put back
FLED: Final = "fled"  # the kernel moved a container's processes out of its cgroup
LEFT_TO_ANOTHER: Final = "left_to_another"  # another manager keeps rewriting a cpuset: we gave way

# Changes from outside.
MACHINE_CHANGED: Final = "machine_changed"  # CPUs or memory nodes came or went
MACHINE_UNREADABLE: Final = "machine_unreadable"  # the old machine stays in force
CONFIG_RELOADED: Final = "config_reloaded"  # a changed configuration is in force, or means what was in force
CONFIG_REJECTED: Final = "config_rejected"  # a changed configuration is not taken; the old one stays in force
CONFIG_KEPT: Final = "config_kept"  # a start with an invalid file goes on with what was in force before
CONFIG_NOT_KEPT: Final = "config_not_kept"  # a start with an invalid file would find an older one, or none
CONFIG_WRITTEN: Final = "config_written"  # by the agent: the host's copy of a ConfigMap is as the ConfigMap
CONFIG_NOT_WRITTEN: Final = "config_not_written"  # by the agent: what was written before stays
KUBELET_MANAGER: Final = "kubelet_manager"  # the kubelet pins CPUs or memory itself
