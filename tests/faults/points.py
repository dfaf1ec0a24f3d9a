"""The named points at which the daemon is killed: each of them in at least 20 histories (``tests.kill``).

A name begins with what the daemon does it for where that is not the kubelet: ``start`` (it takes over), ``drift``
(it puts a cpuset back), ``slow check`` (cold starts end, memory comes back, exits are found), ``re-plan`` (new options,
hotplug). Points that some histories do not come to are killed at as well, and are not named here.
"""

# Calls of the kubelet: the message is read; there is a verdict, decided and durable; it is sent on; the runtime has
# acted, and its reply is not seen yet; the reply is taken into account.
CALLS = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
)
STAGES_OF_A_CALL = ("read", "decided", "sent", "acted", "reply seen")
# The daemon's own calls: sent; the runtime has acted.
OWN_CALLS = (
    "own ListContainers",
    "own ListPodSandbox",
    "own update of CPUs",
    "start: own ListContainers",
    "start: own ListPodSandbox",
    "start: own ContainerStatus",
    "start: own update of CPUs",
    "slow check: own ListContainers",
    "slow check: own ListPodSandbox",
    "slow check: own update of memory",
    "drift: own ContainerStatus",
    "drift: own update of CPUs",
    "re-plan: own update of CPUs",
)
STAGES_OF_AN_OWN_CALL = ("sent", "acted")
# Changes of the ledger: made in memory and asked to be saved; durable.
SAVES = (
    "save sandbox",
    "save reserved",  # a place is found for a container
    "save pending",  # nobody knows whether it was created
    "save created",
    "save running",
    "save grant",  # it holds something else: a resize, a lift, memory that comes back
    "save announced",  # a container may be on more CPUs or memory from now on
    "save confirmed",  # the runtime has updated a container
    "save exited",
    "save removal",
    "save decision",
    "start: save confirmed",
    "start: save removal",
    "slow check: save grant",
    "slow check: save confirmed",
    "slow check: save decision",
    "drift: save confirmed",
    "drift: save decision",
    "re-plan: save grant",
    "re-plan: save announced",
    "re-plan: save confirmed",
    "re-plan: save decision",
)
STAGES_OF_A_SAVE = ("asked", "durable")

POINTS = (
    "nothing under way",
    *(f"{call}: {stage}" for call in CALLS for stage in STAGES_OF_A_CALL),
    *(f"{call}: {stage}" for call in OWN_CALLS for stage in STAGES_OF_AN_OWN_CALL),
    *(f"{save}: {stage}" for save in SAVES for stage in STAGES_OF_A_SAVE),
)
