"""Parse one step of a scenario from YAML into its action: one function for each kind of step."""

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from cri_proxy.cri_client.pods import ContainerRole, PodAmounts
from cri_proxy.simulate.expect.expressions import check
from cri_proxy.simulate.scenario.amounts import AMOUNT_KEYS, RESIZE_KEYS, amounts_of, pod_amounts
from cri_proxy.simulate.scenario.costs import read_cost_text
from cri_proxy.simulate.scenario.devices import read_device, read_mount
from cri_proxy.simulate.scenario.fields import Field
from cri_proxy.simulate.scenario.inventory import read_listed
from cri_proxy.simulate.scenario.model import (
    Action,
    Advance,
    Amounts,
    ChangeCosts,
    ChangeInventory,
    CpuHotplug,
    Create,
    Delete,
    Expect,
    NewContainer,
    OnContainer,
    Reconfigure,
    ResetNode,
    Resize,
    Restart,
    Step,
    Tamper,
)
from policies.base import Labels, QosClass
from sysfs.cpuset import CpuSet, NodeSet

CREATE_KEYS = ("pod", "namespace", "qos", "static", "annotations", "labels", "resources", "containers")
ROLE_KEYS = ("init", "sidecar", "ephemeral")
CONTAINER_KEYS = ("name", "devices", "mounts", "cpuset_cpus", *AMOUNT_KEYS, *ROLE_KEYS)
UPDATE_KEYS = ("container", "cpuset_cpus", *RESIZE_KEYS)
_QOS = {"guaranteed": QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}
_BEFORE_OTHERS = (ContainerRole.INIT, ContainerRole.SIDECAR)


def read_step(item: Field) -> Step:
    """Read a step of any kind."""
    fields = item.mapping(STEP_KEYS, "a step")
    if len(fields) != 1:
        raise item.refuse(f"a step does one thing, one of {', '.join(STEP_KEYS)}; this one has {len(fields)}")
    ((key, value),) = fields.items()
    return Step(_READERS[key](value), item.plain(), item.line)


def _create(value: Field) -> Create:
    fields = value.mapping(CREATE_KEYS, "create")
    for key in ("pod", "containers"):
        if key not in fields:
            raise value.refuse(f"create: {key} is missing")
    qos = _qos(fields.get("qos"))
    amounts = _pod_amounts(fields["resources"]) if "resources" in fields else PodAmounts()
    if amounts.are_given and qos is not None:
        raise value.refuse("create: the QoS class follows from the resources of the pod; leave qos out")
    containers = tuple(_container(item, qos) for item in fields["containers"].items("containers"))
    names = [container.name for container in containers]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise fields["containers"].refuse(f"create: two containers are named {doubled[0]}")
    _check_order(fields["containers"], containers)
    return Create(
        pod=_name(fields["pod"], "pod"),
        namespace=_name(fields["namespace"], "namespace") if "namespace" in fields else None,
        qos=qos,
        annotations=_pairs(fields.get("annotations"), "annotations"),
        labels=_pairs(fields.get("labels"), "labels"),
        containers=containers,
        is_static="static" in fields and fields["static"].truth("static"),
        amounts=amounts,
    )


def _pod_amounts(value: Field) -> PodAmounts:
    """Read the resources of a pod as a whole."""
    amounts = amounts_of(value, value.mapping(RESIZE_KEYS, "resources"), None)
    return pod_amounts(amounts)


def _check_order(part: Field, containers: Sequence[NewContainer]) -> None:
    """Raise ScenarioError for an order of containers that no kubelet creates."""
    for i, container in enumerate(containers):
        if container.role in _BEFORE_OTHERS and any(c.role not in _BEFORE_OTHERS for c in containers[:i]):
            raise part.refuse(f"create: {container.name}: init containers and sidecars stand before the others")


def _container(item: Field, qos: QosClass | None) -> NewContainer:
    fields = item.mapping(CONTAINER_KEYS, "a container")
    if "name" not in fields:
        raise item.refuse("a container: name is missing")
    roles = [key for key in ROLE_KEYS if key in fields and fields[key].truth(key)]
    if len(roles) > 1:
        raise item.refuse(f"a container is one of {', '.join(ROLE_KEYS)}, not {' and '.join(roles)}")
    role = ContainerRole(roles[0]) if roles else ContainerRole.REGULAR
    is_ephemeral = role is ContainerRole.EPHEMERAL
    amounts = amounts_of(item, fields, None if is_ephemeral else qos)
    if is_ephemeral and amounts != Amounts():
        raise item.refuse("an ephemeral container requests nothing; leave cpu and memory out")
    devices = fields["devices"].items("devices") if "devices" in fields else []
    mounts = fields["mounts"].items("mounts") if "mounts" in fields else []
    attachments = (*map(read_device, devices), *map(read_mount, mounts))
    return NewContainer(_name(fields["name"], "name"), amounts, attachments, role, _cpuset(fields))


def _update(value: Field) -> Resize:
    fields = value.mapping(UPDATE_KEYS, "update")
    if "container" not in fields:
        raise value.refuse("update: container is missing; name it as pod/container")
    amounts, cpus = amounts_of(value, fields, None), _cpuset(fields)
    if amounts == Amounts() and not cpus:
        raise value.refuse("update: nothing is changed; give cpu, memory, or requests and limits")
    return Resize(_container_reference("update", fields["container"]), amounts, cpus)


def _cpuset(fields: Mapping[str, Field]) -> CpuSet:
    return fields["cpuset_cpus"].parsed("cpuset_cpus", CpuSet.parse) if "cpuset_cpus" in fields else CpuSet()


def _qos(value: Field | None) -> QosClass | None:
    if value is None or value.is_null:
        return None
    text = value.text("qos").lower().replace("-", "").replace("_", "").replace(" ", "")
    if text not in _QOS:
        raise value.refuse(f"qos: expected guaranteed, burstable or besteffort, got {value.shown()}")
    return _QOS[text]


def _pairs(value: Field | None, what: str) -> Labels:
    """Return texts by key, sorted; a list or mapping as an annotation's value becomes JSON."""
    if value is None or value.is_null:
        return ()
    found = {
        key: entry.text(what) if entry.is_scalar else json.dumps(entry.plain())
        for key, entry in value.entries(what).items()
    }
    return tuple(sorted(found.items()))


def _name(value: Field, what: str) -> str:
    text = value.text(what)
    if not text or "/" in text or text != text.strip():
        raise value.refuse(f"{what}: expected a name without slashes, got {value.shown()}")
    return text


def _container_reference(what: str, value: Field) -> str:
    """Read ``pod/container`` or ``namespace/pod/container``."""
    text = value.text(what)
    if len(text.split("/")) not in {2, 3} or not all(text.split("/")):
        raise value.refuse(f"{what}: expected pod/container or namespace/pod/container, got {value.shown()}")
    return text


def _delete(value: Field) -> Delete:
    text = value.text("delete")
    if len(text.split("/")) not in {1, 2} or not all(text.split("/")):
        raise value.refuse(f"delete: expected a pod's name, or namespace/pod, got {value.shown()}")
    return Delete(text)


def read_options(what: str, part: Field | None) -> Mapping[str, object]:
    """Read a mapping of the daemon's options; empty where nothing is given."""
    if part is None or part.is_null:
        return {}
    value = part.plain()
    if not isinstance(value, Mapping):
        raise part.refuse(f"{what}: expected a mapping of options, got {part.shown()}")
    return value


def _restart(value: Field) -> Restart:
    fields = {"what": value} if value.is_scalar else value.mapping(("what", "loses_state"), "restart")
    if "what" not in fields:
        raise value.refuse("restart: what is missing; give proxy, runtime or both")
    loses_state = "loses_state" in fields and fields["loses_state"].truth("loses_state")
    match fields["what"].text("restart"):
        case "runtime" if loses_state:
            raise value.refuse("restart: the runtime has no state of the proxy to lose; give proxy or both")
        case ("proxy" | "runtime" | "both") as what:
            return Restart(what, loses_state)
    raise value.refuse(f"restart: expected proxy, runtime or both, got {fields['what'].shown()}")


def _reset(value: Field) -> ResetNode:
    if value.is_null or (value.is_scalar and value.text("reset") == "true"):
        return ResetNode()
    raise value.refuse(f"reset: expected true, got {value.shown()}")


def _advance(value: Field) -> Advance:
    try:
        seconds = float(value.text("advance"))
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds <= 0:
        raise value.refuse(f"advance: expected a number of seconds above 0, got {value.shown()}")
    return Advance(seconds)


def _cpus(what: str, value: Field) -> CpuSet:
    cpus = value.parsed(what, CpuSet.parse)
    if not cpus:
        raise value.refuse(f"{what}: expected CPUs like 0-3,8, got nothing")
    return cpus


def _tamper(value: Field) -> Tamper:
    fields = value.mapping(("container", "cpus", "mems"), "tamper")
    if "container" not in fields:
        raise value.refuse("tamper: container is missing; name it as pod/container")
    if len(fields) == 1:
        raise value.refuse("tamper: nothing is written; give cpus, mems, or both")
    return Tamper(
        _container_reference("tamper", fields["container"]),
        _cpus("cpus", fields["cpus"]) if "cpus" in fields else None,
        fields["mems"].parsed("mems", NodeSet.parse) if "mems" in fields else None,
    )


def _costs(value: Field) -> ChangeCosts:
    if value.is_null:
        raise value.refuse("costs: expected a listing, or the path of a cost file; {} lists nothing")
    return ChangeCosts(read_cost_text(value))


def _devices_listed(value: Field) -> ChangeInventory:
    if value.is_null:
        raise value.refuse("devices: expected an inventory, or the path of its file; {} lists nothing")
    return ChangeInventory(read_listed(value))


def _expect(value: Field) -> Expect:
    expressions = []
    for item in [value] if value.is_scalar else value.items("expect"):
        text = item.text("expect")
        problem = check(text)
        if problem:
            # Most often the name of a pool: its ' #' begins a comment.
            remedy = "; in quotes, YAML takes no # for a comment" if text.count("'") % 2 else ""
            raise item.refuse(f"expect: {text}: {problem}{remedy}")
        expressions.append(text)
    return Expect(tuple(expressions))


_READERS: Mapping[str, Callable[[Field], Action]] = {
    "create": _create,
    "stop": lambda value: OnContainer("stop", _container_reference("stop", value)),
    "exit": lambda value: OnContainer("exit", _container_reference("exit", value)),
    "restart-container": lambda value: OnContainer(
        "restart-container", _container_reference("restart-container", value)
    ),
    "update": _update,
    "delete": _delete,
    "reconfigure": lambda value: Reconfigure(read_options("reconfigure", value)),
    "restart": _restart,
    "reset": _reset,
    "advance": _advance,
    "offline": lambda value: CpuHotplug("offline", _cpus("offline", value)),
    "online": lambda value: CpuHotplug("online", _cpus("online", value)),
    "tamper": _tamper,
    "costs": _costs,
    "devices": _devices_listed,
    "expect": _expect,
}
STEP_KEYS = tuple(_READERS)
