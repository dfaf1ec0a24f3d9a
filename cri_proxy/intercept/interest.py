"""Which CRI methods the daemon looks at, by name alone: known before anything that decides is loaded."""

from typing import Final

from cri_proxy.relay.calls import Interest

RUNTIME: Final = "/runtime.v1.RuntimeService/"
OLD_RUNTIME: Final = "/runtime.v1alpha2.RuntimeService/"
CREATE: Final = RUNTIME + "CreateContainer"
START: Final = RUNTIME + "StartContainer"
UPDATE: Final = RUNTIME + "UpdateContainerResources"

_HELD: Final = frozenset(
    RUNTIME + name
    for name in (
        *("RunPodSandbox", "UpdatePodSandboxResources", "StopPodSandbox", "RemovePodSandbox", "RestorePod"),
        *("CreateContainer", "StartContainer", "UpdateContainerResources", "StopContainer", "RemoveContainer"),
    )
)


def interest_of(method: str) -> Interest:
    """Hold what spec/relay.md's table names; v1alpha2 is refused, because old runtimes would serve it unpinned."""
    if method in _HELD:
        return Interest.HOLD
    return Interest.REFUSE if method.startswith(OLD_RUNTIME) else Interest.PASS
