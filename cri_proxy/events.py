"""Names of the events that are logged. Everything else about an event is a field."""

from typing import Final

# Start and stop.
READY: Final = "ready"  # decisions are made from here on
RECOVERED: Final = "recovered"  # the saved state was held against the runtime
STOPPING: Final = "stopping"
CONFIG_WARNING: Final = "config_warning"
MACHINE_NOTE: Final = "machine_note"  # a fallback that discovery took
STORE_DAMAGED: Final = "store_damaged"  # moved aside; rebuilt from the runtime
HTTP_UNAVAILABLE: Final = "http_unavailable"
RUNTIME_AWAY: Final = "runtime_away"
POD_RESOURCES_AWAY: Final = "pod_resources_away"  # the kubelet does not say where devices are

# One per decision.
PLACED: Final = "placed"
REFUSED: Final = "refused"
REPLACED: Final = "replaced"  # a saved grant was no longer legal
UNPLACED: Final = "unplaced"  # let through without a decision, placed later
NOT_ADOPTED: Final = "not_adopted"
RELEASED: Final = "released"
ANNOTATION_IGNORED: Final = "annotation_ignored"

# Effects.
UPDATED: Final = "updated"
ROLLED_BACK: Final = "rolled_back"  # the runtime did not create it: nothing is held
UPDATE_FAILED: Final = "update_failed"
VIOLATION: Final = "violation"  # exclusive CPUs that somebody else can still reach

# Faults.
FAULT: Final = "fault"  # our own code failed
STORE_DEGRADED: Final = "store_degraded"  # a save failed
CHECK_FAILED: Final = "check_failed"  # the slow check
UNKNOWN_CONTAINERS: Final = "unknown_containers"
