"""Read the steps of operators, hardware and time from YAML."""

from collections.abc import Mapping
from math import isfinite

from cri_proxy.simulate.scenario.fields import Field
from cri_proxy.simulate.scenario.model import Advance, CpuHotplug, ResetNode, Restart, Tamper
from cri_proxy.simulate.scenario.pod_steps import container_reference
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

RESTART_KEYS = ("what", "loses_state")
TAMPER_KEYS = ("container", "cpus", "mems")


def options(part: Field | None, what: str) -> Mapping[str, object]:
    """Read a mapping of the daemon's options; empty where nothing is given. Raises ScenarioError."""
    if part is None or part.is_null:
        return {}
    value = part.plain()
    if not isinstance(value, Mapping):
        raise part.refuse(f"{what}: expected a mapping of options, got {part.shown()}")
    return value


def restart(value: Field) -> Restart:
    """Read what restarts, and whether the proxy's state is lost. Raises ScenarioError."""
    fields = {"what": value} if value.is_scalar else value.mapping(RESTART_KEYS, "restart")
    if "what" not in fields:
        raise value.refuse("restart: what is missing; give proxy, runtime or both")
    loses_state = "loses_state" in fields and fields["loses_state"].truth("loses_state")
    match fields["what"].text("restart"):
        case "runtime" if loses_state:
            raise value.refuse("restart: the runtime has no state of the proxy to lose; give proxy or both")
        case ("proxy" | "runtime" | "both") as what:
            return Restart(what, loses_state)
    raise value.refuse(f"restart: expected proxy, runtime or both, got {fields['what'].shown()}")


def reset(value: Field) -> ResetNode:
    """Read a reset, which has no details. Raises ScenarioError."""
    if value.is_null or (value.is_scalar and value.text("reset") == "true"):
        return ResetNode()
    raise value.refuse(f"reset: expected true, got {value.shown()}")


def advance(value: Field) -> Advance:
    """Read how much time passes, in seconds. Raises ScenarioError."""
    try:
        seconds = float(value.text("advance"))
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds <= 0:
        raise value.refuse(f"advance: expected a number of seconds above 0, got {value.shown()}")
    return Advance(seconds)


def offline(value: Field) -> CpuHotplug:
    """Read CPUs that go offline. Raises ScenarioError."""
    return CpuHotplug("offline", _cpus(value, "offline"))


def online(value: Field) -> CpuHotplug:
    """Read CPUs that come online. Raises ScenarioError."""
    return CpuHotplug("online", _cpus(value, "online"))


def tamper(value: Field) -> Tamper:
    """Read what is written into a container's cgroup. Raises ScenarioError."""
    fields = value.mapping(TAMPER_KEYS, "tamper")
    if "container" not in fields:
        raise value.refuse("tamper: container is missing; name it as pod/container")
    if len(fields) == 1:
        raise value.refuse("tamper: nothing is written; give cpus, mems, or both")
    return Tamper(
        container_reference(fields["container"], "tamper"),
        _cpus(fields["cpus"], "cpus") if "cpus" in fields else None,
        _mems(fields["mems"]) if "mems" in fields else None,
    )


def _cpus(value: Field, what: str) -> CpuSet:
    try:
        cpus = CpuSet.parse(value.text(what))
    except CpuSetError as error:
        raise value.refuse(f"{what}: {error}") from None
    if not cpus:
        raise value.refuse(f"{what}: expected CPUs like 0-3,8, got nothing")
    return cpus


def _mems(value: Field) -> NodeSet:
    try:
        return NodeSet.parse(value.text("mems"))
    except CpuSetError as error:
        raise value.refuse(f"mems: {error}") from None
