"""Parse one step of a scenario from YAML into its action: a row for each kind of step."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import TypeVar

from cri_proxy.cri_client.pods import ContainerRole, PodAmounts
from cri_proxy.simulate.expect.expressions import check
from cri_proxy.simulate.scenario import model
from cri_proxy.simulate.scenario.amounts import (
    AMOUNT_ROWS,
    RESIZE_ROWS,
    Amounts,
    contradiction,
    make_amounts,
    pod_amounts,
)
from cri_proxy.simulate.scenario.costs import read_cost_text, read_listed
from cri_proxy.simulate.scenario.devices import DEVICES, MOUNTS
from cri_proxy.yaml_fields import YamlField
from policies.base import Labels, QosClass
from sysfs.cpuset import CpuSet
from sysfs.documents.forms import TEXT_OR_JSON, TRUTH, form, matching, scalar
from sysfs.documents.table import Form, KeyRow, Table
from sysfs.known_words import short_repr

T = TypeVar("T")
MOST_COPIES = 10_000
_QOS = {"guaranteed": QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}
_BEFORE_OTHERS = (ContainerRole.INIT, ContainerRole.SIDECAR)
_ROLES = (*_BEFORE_OTHERS, ContainerRole.EPHEMERAL)


def _qos(text: str) -> QosClass:
    word = text.lower().replace("-", "").replace("_", "").replace(" ", "")
    if word not in _QOS:
        raise ValueError(f"expected guaranteed, burstable or besteffort, got {short_repr(text)}")
    return _QOS[word]


def _count(text: str) -> int:
    # By its length first: Python refuses to convert thousands of digits.
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_COPIES))
    if not (is_short and 1 <= int(text) <= MOST_COPIES):
        raise ValueError(f"expected a number of pods from 1 to {MOST_COPIES}, got {short_repr(text)}")
    return int(text)


_NAME = scalar(matching(r"(?!\s)[^/]+(?<!\s)", "a name without slashes"))
_pod_name = matching("[^/]+(/[^/]+)?", "a pod's name, or namespace/pod")
_KUBELET_CPUS = KeyRow("cpuset_cpus", scalar(CpuSet.parse), "CPUs that the kubelet's own CPU manager gives it")


def _pairs(value: YamlField, what: str) -> Labels:
    """Return texts by key, sorted."""
    return tuple(sorted((key, TEXT_OR_JSON.read(item, what, None)) for key, item in value.entries(what).items()))


def _container(
    name: str,
    devices: tuple[model.Attachment, ...] = (),
    mounts: tuple[model.Attachment, ...] = (),
    cpuset_cpus: CpuSet = CpuSet(),
    **more: object,
) -> model.NewContainer:
    roles = [role for role in _ROLES if more.pop(role, False)]
    amounts = make_amounts(**more)
    if len(roles) > 1:
        raise ValueError(f"it is one of {', '.join(_ROLES)}, not {' and '.join(roles)}")
    role = roles[0] if roles else ContainerRole.REGULAR
    if role is ContainerRole.EPHEMERAL and amounts != Amounts():
        raise ValueError("an ephemeral container requests nothing; leave cpu and memory out")
    return model.NewContainer(name, amounts, (*devices, *mounts), role, cpuset_cpus)


CONTAINER = Table(
    _container,
    KeyRow("name", _NAME, "its name", "name is missing"),
    *AMOUNT_ROWS,
    KeyRow("init", TRUTH, "it runs to its end before the next one is made"),
    KeyRow("sidecar", TRUTH, "an init container that stays"),
    KeyRow("ephemeral", TRUTH, "it joins a running pod and asks for nothing"),
    KeyRow("devices", DEVICES, "PCI addresses, host paths, or `{path, on, container}`"),
    KeyRow("mounts", MOUNTS, "host paths, or `{path, on, container, read_only}`"),
    _KUBELET_CPUS,
    name="a container",
)


def _containers(value: YamlField, what: str, qos: QosClass | None) -> tuple[model.NewContainer, ...]:
    """Return the containers in an order in which a kubelet creates them."""
    found: list[model.NewContainer] = []
    for item in value.items(what):
        container = CONTAINER.read(item)
        name = container.name
        problem = contradiction(container.amounts, None if container.role is ContainerRole.EPHEMERAL else qos)
        if problem:
            raise item.refuse(problem)
        if any(other.name == name for other in found):
            raise item.refuse(f"create: two containers are named {name}")
        if container.role in _BEFORE_OTHERS and any(other.role not in _BEFORE_OTHERS for other in found):
            raise item.refuse(f"create: {name}: init containers and sidecars stand before the others")
        found.append(container)
    return tuple(found)


RESOURCES = Table(Amounts, *RESIZE_ROWS, name="resources")


def _pod_amounts(value: YamlField, what: str, qos: QosClass | None) -> PodAmounts:
    """Read the resources of a pod as a whole."""
    amounts = RESOURCES.read(value, what)
    problem = contradiction(amounts, None)
    if not problem and qos is not None and pod_amounts(amounts).are_given:
        problem = "create: the QoS class follows from the resources of the pod; leave qos out"
    if problem:
        raise value.refuse(problem)
    return pod_amounts(amounts)


CREATE = Table(
    model.Create,
    KeyRow("pod", _NAME, "its name; a pod that exists gets more containers", "pod is missing"),
    KeyRow("namespace", _NAME, "left out: that of the pod, or default"),
    KeyRow("qos", scalar(_qos), "guaranteed, burstable or besteffort; left out: as Kubernetes has it"),
    KeyRow("static", TRUTH, "its manifest is a file of the node, so that its uid stays the same", field="is_static"),
    KeyRow("annotations", form(_pairs), "a value may be a mapping"),
    KeyRow("labels", form(_pairs), "of the pod"),
    KeyRow("count", scalar(_count), "so many pods like it: `web-0`, `web-1` and on, each in a step of its own"),
    KeyRow("resources", Form(_pod_amounts), "of the pod as a whole", field="amounts"),
    KeyRow("containers", Form(_containers), "in their order", "containers is missing", takes_null=True),
    name="create",
)


def _create(value: YamlField, _: str) -> model.Create:
    fields = CREATE.fields(value)
    return CREATE.made(fields, within=fields["qos"].parsed("qos", _qos) if "qos" in fields else None)


def _resize(container: str, cpuset_cpus: CpuSet = CpuSet(), **more: object) -> model.Resize:
    amounts = make_amounts(**more)
    if amounts == Amounts() and not cpuset_cpus:
        raise ValueError("nothing is changed; give cpu, memory, or requests and limits")
    if problem := contradiction(amounts, None):
        raise ValueError(problem)
    return model.Resize(container, amounts, cpuset_cpus)


UPDATE = Table(
    _resize,
    KeyRow("container", model.CONTAINER_NAME, "which one", model.NO_CONTAINER),
    *RESIZE_ROWS,
    _KUBELET_CPUS,
    name="update",
)
RESTART = Table(model.Restart, name="restart")
TAMPER = Table(model.Tamper, name="tamper")


def read_options(value: YamlField, what: str) -> Mapping[str, object]:
    """Read a mapping of the daemon's options; empty where nothing is given."""
    plain = {} if value.is_null else value.plain()
    if not isinstance(plain, Mapping):
        raise value.refuse(f"{what}: expected a mapping of options, got {value.shown()}")
    return plain


def _restart(value: YamlField, what: str) -> model.Restart:
    return model.Restart(model.PART.read(value, what)) if value.is_scalar else RESTART.read(value)


def _reset(value: YamlField, what: str) -> model.ResetNode:
    if value.is_null or (value.is_scalar and value.text(what) == "true"):
        return model.ResetNode()
    raise value.refuse(f"{what}: expected true, got {value.shown()}")


def _advance(text: str) -> model.Advance:
    with suppress(ValueError):
        if isfinite(seconds := float(text)) and seconds > 0:
            return model.Advance(seconds)
    raise ValueError(f"expected a number of seconds above 0, got {short_repr(text)}")


def _listing(make: Callable[[T], model.Action], read: Callable[[YamlField, str], T], kind: str) -> Form[model.Action]:
    """Return the form of what a file of the node lists, written out or as a path."""

    def action(value: YamlField, what: str) -> model.Action:
        if value.is_null:
            raise value.refuse(f"{what}: expected {kind}; {{}} lists nothing")
        return make(read(value, what))

    return form(action)


def _expect(value: YamlField, what: str) -> model.Expect:
    expressions = []
    for item in value.listed(what):
        text = item.text(what)
        problem = check(text)
        if problem:
            # Most often the name of a pool: its ' #' begins a comment.
            remedy = "; in quotes, YAML takes no # for a comment" if text.count("'") % 2 else ""
            raise item.refuse(f"{what}: {text}: {problem}{remedy}")
        expressions.append(text)
    return model.Expect(tuple(expressions))


_ACTIONS: Mapping[str, Form[model.Action]] = {
    "create": form(_create),
    "stop": scalar(lambda text: model.OnContainer("stop", model.container_name(text))),
    "exit": scalar(lambda text: model.OnContainer("exit", model.container_name(text))),
    "restart-container": scalar(lambda text: model.OnContainer("restart-container", model.container_name(text))),
    "update": UPDATE,
    "delete": scalar(lambda text: model.Delete(_pod_name(text))),
    "reconfigure": form(lambda value, what: model.Reconfigure(read_options(value, what))),
    "restart": form(_restart),
    "reset": form(_reset),
    "advance": scalar(_advance),
    "offline": scalar(lambda text: model.CpuHotplug("offline", model.some_cpus(text))),
    "online": scalar(lambda text: model.CpuHotplug("online", model.some_cpus(text))),
    "tamper": TAMPER,
    "costs": _listing(model.ChangeCosts, read_cost_text, "a listing, or the path of a cost file"),
    "devices": _listing(model.ChangeInventory, read_listed, "an inventory, or the path of its file"),
    "expect": form(_expect),
}
STEPS = tuple(_ACTIONS)


def _step(item: YamlField, _: str) -> model.Step:
    entries = item.mapping(STEPS, "a step")
    if len(entries) != 1:
        raise item.refuse(f"a step does one thing, one of {', '.join(STEPS)}; this one has {len(entries)}")
    ((what, value),) = entries.items()
    return model.Step(_ACTIONS[what].read(value, what, None), item.plain(), item.line)


STEP = form(_step)
