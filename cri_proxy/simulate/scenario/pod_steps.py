"""Read the steps of a kubelet from YAML: pods, their containers, resizes, and the names of pods and containers."""

import json
from collections.abc import Mapping

from cri_proxy.simulate.scenario.amounts import CONTAINER_KEYS, UPDATE_KEYS, amounts_of
from cri_proxy.simulate.scenario.devices import read_device, read_mount
from cri_proxy.simulate.scenario.fields import Field
from cri_proxy.simulate.scenario.model import Amounts, ContainerRole, Create, NewContainer, Resize
from policies.base import Labels, QosClass
from sysfs.cpuset import CpuSet, CpuSetError

CREATE_KEYS = ("pod", "namespace", "qos", "static", "annotations", "labels", "containers")
ROLE_KEYS = ("init", "sidecar", "ephemeral")
_QOS = {"guaranteed": QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}


def create(value: Field) -> Create:
    """Read a pod, or more containers of one. Raises ScenarioError."""
    fields = value.mapping(CREATE_KEYS, "create")
    for key in ("pod", "containers"):
        if key not in fields:
            raise value.refuse(f"create: {key} is missing")
    qos = _qos(fields.get("qos"))
    containers = tuple(_container(item, qos) for item in fields["containers"].items("containers"))
    names = [container.name for container in containers]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise fields["containers"].refuse(f"create: two containers are named {doubled[0]}")
    _check_order(fields["containers"], containers)
    namespace = fields.get("namespace")
    return Create(
        pod=name_of(fields["pod"], "pod"),
        namespace=name_of(namespace, "namespace") if namespace is not None else None,
        qos=qos,
        annotations=_pairs(fields.get("annotations"), "annotations"),
        labels=_pairs(fields.get("labels"), "labels"),
        containers=containers,
        is_static="static" in fields and fields["static"].truth("static"),
    )


def _check_order(part: Field, containers: tuple[NewContainer, ...]) -> None:
    """Raise ScenarioError for an order of containers that no kubelet creates."""
    later = False
    for container in containers:
        if container.role in (ContainerRole.INIT, ContainerRole.SIDECAR) and later:
            raise part.refuse(f"create: {container.name}: init containers and sidecars stand before the others")
        later = later or container.role not in (ContainerRole.INIT, ContainerRole.SIDECAR)


def _container(item: Field, qos: QosClass | None) -> NewContainer:
    fields = item.mapping((*CONTAINER_KEYS, *ROLE_KEYS), "a container")
    if "name" not in fields:
        raise item.refuse("a container: name is missing")
    role = _role(item, fields)
    devices = fields["devices"].items("devices") if "devices" in fields else []
    mounts = fields["mounts"].items("mounts") if "mounts" in fields else []
    return NewContainer(
        name_of(fields["name"], "name"),
        _amounts(item, fields, qos, role),
        (*map(read_device, devices), *map(read_mount, mounts)),
        role,
        _cpuset(fields),
    )


def _role(item: Field, fields: Mapping[str, Field]) -> ContainerRole:
    chosen = [key for key in ROLE_KEYS if key in fields and fields[key].truth(key)]
    if len(chosen) > 1:
        raise item.refuse(f"a container is one of {', '.join(ROLE_KEYS)}, not {' and '.join(chosen)}")
    return ContainerRole(chosen[0]) if chosen else ContainerRole.REGULAR


def _amounts(item: Field, fields: Mapping[str, Field], qos: QosClass | None, role: ContainerRole) -> Amounts:
    if role is not ContainerRole.EPHEMERAL:
        return amounts_of(item, fields, qos)
    if not amounts_of(item, fields, None).is_empty:
        raise item.refuse("an ephemeral container requests nothing; leave cpu and memory out")
    return Amounts()


def update(value: Field) -> Resize:
    """Read a resize in place. Raises ScenarioError."""
    fields = value.mapping(UPDATE_KEYS, "update")
    if "container" not in fields:
        raise value.refuse("update: container is missing; name it as pod/container")
    amounts, cpus = amounts_of(value, fields, None), _cpuset(fields)
    if amounts.is_empty and not cpus:
        raise value.refuse("update: nothing is changed; give cpu, memory, or requests and limits")
    return Resize(container_reference(fields["container"], "update"), amounts, cpus)


def _cpuset(fields: Mapping[str, Field]) -> CpuSet:
    if "cpuset_cpus" not in fields:
        return CpuSet()
    try:
        return CpuSet.parse(fields["cpuset_cpus"].text("cpuset_cpus"))
    except CpuSetError as error:
        raise fields["cpuset_cpus"].refuse(f"cpuset_cpus: {error}") from None


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


def name_of(value: Field, what: str) -> str:
    """Read the name of a pod, namespace or container. Raises ScenarioError."""
    text = value.text(what)
    if not text or "/" in text or text != text.strip():
        raise value.refuse(f"{what}: expected a name without slashes, got {value.shown()}")
    return text


def container_reference(value: Field, what: str) -> str:
    """Read ``pod/container`` or ``namespace/pod/container``. Raises ScenarioError."""
    text = value.text(what)
    if len(text.split("/")) not in {2, 3} or not all(text.split("/")):
        raise value.refuse(f"{what}: expected pod/container or namespace/pod/container, got {value.shown()}")
    return text


def pod_reference(value: Field) -> str:
    """Read ``pod`` or ``namespace/pod``. Raises ScenarioError."""
    text = value.text("delete")
    if len(text.split("/")) not in {1, 2} or not all(text.split("/")):
        raise value.refuse(f"delete: expected a pod's name, or namespace/pod, got {value.shown()}")
    return text
