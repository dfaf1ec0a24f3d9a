"""Parse one step of a scenario from YAML into its action: a row for each kind of step."""

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite

from cri_proxy.cri_client.pods import ContainerRole, PodAmounts
from cri_proxy.simulate.expect.expressions import check
from cri_proxy.simulate.scenario.amounts import AMOUNT_ROWS, RESIZE_ROWS, contradiction, pod_amounts
from cri_proxy.simulate.scenario.costs import read_cost_text
from cri_proxy.simulate.scenario.devices import DEVICES, MOUNTS
from cri_proxy.simulate.scenario.inventory import read_listed
from cri_proxy.simulate.scenario.model import (
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
from cri_proxy.yaml_fields import YamlField
from policies.base import Labels, QosClass
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.documents.forms import TEXT, TEXT_OR_JSON, TRUTH, Within, form, matching, scalar
from sysfs.documents.table import Form, KeyRow, Table
from sysfs.documents.value import short_repr

_QOS = {"guaranteed": QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}
_BEFORE_OTHERS = (ContainerRole.INIT, ContainerRole.SIDECAR)


def _qos(text: str) -> QosClass:
    word = text.lower().replace("-", "").replace("_", "").replace(" ", "")
    if word not in _QOS:
        raise ValueError(f"expected guaranteed, burstable or besteffort, got {short_repr(text)}")
    return _QOS[word]


_NAME = scalar(matching(r"(?!\s)[^/]+(?<!\s)", "a name without slashes"))
_container_name = matching("[^/]+(/[^/]+){1,2}", "pod/container or namespace/pod/container")
_pod_name = matching("[^/]+(/[^/]+)?", "a pod's name, or namespace/pod")


def _cpus(text: str) -> CpuSet:
    if not (cpus := CpuSet.parse(text)):
        raise ValueError("expected CPUs like 0-3,8, got nothing")
    return cpus


def _pairs(value: YamlField, what: str) -> Labels:
    """Return texts by key, sorted."""
    return tuple(sorted((key, TEXT_OR_JSON.read(item, what, None)) for key, item in value.entries(what).items()))


def _role(amounts: Amounts, **given: bool) -> ContainerRole:
    roles = [key for key, is_given in given.items() if is_given]
    if len(roles) > 1:
        raise ValueError(f"it is one of {', '.join(given)}, not {' and '.join(roles)}")
    role = ContainerRole(roles[0]) if roles else ContainerRole.REGULAR
    if role is ContainerRole.EPHEMERAL and amounts != Amounts():
        raise ValueError("an ephemeral container requests nothing; leave cpu and memory out")
    return role


CONTAINER = Table(
    lambda name, devices=(), mounts=(), cpuset_cpus=CpuSet(), init=False, sidecar=False, ephemeral=False, **amounts: (
        NewContainer(
            name,
            Amounts(**amounts),
            (*devices, *mounts),
            _role(Amounts(**amounts), init=init, sidecar=sidecar, ephemeral=ephemeral),
            cpuset_cpus,
        )
    ),
    KeyRow("name", _NAME, "its name", "name is missing"),
    *AMOUNT_ROWS,
    KeyRow("init", TRUTH, "it runs to its end before the next one is made"),
    KeyRow("sidecar", TRUTH, "an init container that stays"),
    KeyRow("ephemeral", TRUTH, "it joins a running pod and asks for nothing"),
    KeyRow("devices", DEVICES, "PCI addresses, host paths, or `{path, on, container}`"),
    KeyRow("mounts", MOUNTS, "host paths, or `{path, on, container, read_only}`"),
    KeyRow("cpuset_cpus", scalar(CpuSet.parse), "CPUs that the kubelet's own CPU manager gives it"),
    name="a container",
)


def _containers(value: YamlField, what: str, qos: QosClass | None) -> tuple[NewContainer, ...]:
    """Return the containers in an order in which a kubelet creates them."""
    found: list[NewContainer] = []
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
    lambda namespace=None, qos=None, annotations=(), labels=(), **more: Create(
        namespace=namespace, qos=qos, annotations=annotations, labels=labels, **more
    ),
    KeyRow("pod", _NAME, "its name; a pod that exists gets more containers", "pod is missing"),
    KeyRow("namespace", _NAME, "left out: that of the pod, or default"),
    KeyRow("qos", scalar(_qos), "guaranteed, burstable or besteffort; left out: as Kubernetes has it"),
    KeyRow("static", TRUTH, "its manifest is a file of the node, so that its uid stays the same", field="is_static"),
    KeyRow("annotations", form(_pairs), "a value may be a mapping"),
    KeyRow("labels", form(_pairs), "of the pod"),
    KeyRow("resources", Within(_pod_amounts), "of the pod as a whole", field="amounts"),
    KeyRow("containers", Within(_containers), "in their order", "containers is missing", takes_null=True),
    name="create",
)


def _create(value: YamlField, _: str) -> Create:
    fields = CREATE.fields(value)
    return CREATE.made(fields, within=fields["qos"].parsed("qos", _qos) if "qos" in fields else None)


def _resize(container: str, cpus: CpuSet, amounts: Amounts) -> Resize:
    if amounts == Amounts() and not cpus:
        raise ValueError("nothing is changed; give cpu, memory, or requests and limits")
    if problem := contradiction(amounts, None):
        raise ValueError(problem)
    return Resize(container, amounts, cpus)


_NO_CONTAINER = "container is missing; name it as pod/container"
UPDATE = Table(
    lambda container, cpuset_cpus=CpuSet(), **amounts: _resize(container, cpuset_cpus, Amounts(**amounts)),
    KeyRow("container", scalar(_container_name), "which one", _NO_CONTAINER),
    *RESIZE_ROWS,
    KeyRow("cpuset_cpus", scalar(CpuSet.parse), "CPUs that the kubelet's own CPU manager gives it"),
    name="update",
)


def read_options(value: YamlField, what: str) -> Mapping[str, object]:
    """Read a mapping of the daemon's options; empty where nothing is given."""
    plain = {} if value.is_null else value.plain()
    if not isinstance(plain, Mapping):
        raise value.refuse(f"{what}: expected a mapping of options, got {value.shown()}")
    return plain


def _restart(what: str, *, loses_state: bool = False) -> Restart:
    match what:
        case "runtime" if loses_state:
            raise ValueError("the runtime has no state of the proxy to lose; give proxy or both")
        case "proxy" | "runtime" | "both":
            return Restart(what, loses_state)
    raise ValueError(f"expected proxy, runtime or both, got {short_repr(what)}")


RESTART = Table(
    _restart,
    KeyRow("what", TEXT, "proxy, runtime or both", "what is missing; give proxy, runtime or both"),
    KeyRow("loses_state", TRUTH, "without the state that was saved"),
    name="restart",
)


def _restarted(value: YamlField, what: str) -> Restart:
    return value.parsed(what, _restart) if value.is_scalar else RESTART.read(value)


def _reset(value: YamlField, what: str) -> ResetNode:
    if value.is_null or (value.is_scalar and value.text(what) == "true"):
        return ResetNode()
    raise value.refuse(f"{what}: expected true, got {value.shown()}")


def _advance(text: str) -> Advance:
    with suppress(ValueError):
        if isfinite(seconds := float(text)) and seconds > 0:
            return Advance(seconds)
    raise ValueError(f"expected a number of seconds above 0, got {short_repr(text)}")


def _tamper(container: str, cpus: CpuSet | None = None, mems: NodeSet | None = None) -> Tamper:
    if cpus is None and mems is None:
        raise ValueError("nothing is written; give cpus, mems, or both")
    return Tamper(container, cpus, mems)


TAMPER = Table(
    _tamper,
    KeyRow("container", scalar(_container_name), "which one", _NO_CONTAINER),
    KeyRow("cpus", scalar(_cpus), "what is written as its CPUs"),
    KeyRow("mems", scalar(NodeSet.parse), "what is written as its memory nodes"),
    name="tamper",
)


def _costs(value: YamlField, what: str) -> ChangeCosts:
    if value.is_null:
        raise value.refuse(f"{what}: expected a listing, or the path of a cost file; {{}} lists nothing")
    return ChangeCosts(read_cost_text(value, what))


def _devices_listed(value: YamlField, what: str) -> ChangeInventory:
    if value.is_null:
        raise value.refuse(f"{what}: expected an inventory, or the path of its file; {{}} lists nothing")
    return ChangeInventory(read_listed(value, what))


def _expect(value: YamlField, what: str) -> Expect:
    expressions = []
    for item in [value] if value.is_scalar else value.items(what):
        text = item.text(what)
        problem = check(text)
        if problem:
            # Most often the name of a pool: its ' #' begins a comment.
            remedy = "; in quotes, YAML takes no # for a comment" if text.count("'") % 2 else ""
            raise item.refuse(f"{what}: {text}: {problem}{remedy}")
        expressions.append(text)
    return Expect(tuple(expressions))


def _step(key: str, action: Form[object]) -> KeyRow:
    return KeyRow(key, action, takes_null=True)


STEPS = Table(
    lambda **actions: actions,
    _step("create", form(_create)),
    _step("stop", scalar(lambda text: OnContainer("stop", _container_name(text)))),
    _step("exit", scalar(lambda text: OnContainer("exit", _container_name(text)))),
    _step("restart-container", scalar(lambda text: OnContainer("restart-container", _container_name(text)))),
    _step("update", UPDATE),
    _step("delete", scalar(lambda text: Delete(_pod_name(text)))),
    _step("reconfigure", form(lambda value, what: Reconfigure(read_options(value, what)))),
    _step("restart", form(_restarted)),
    _step("reset", form(_reset)),
    _step("advance", scalar(_advance)),
    _step("offline", scalar(lambda text: CpuHotplug("offline", _cpus(text)))),
    _step("online", scalar(lambda text: CpuHotplug("online", _cpus(text)))),
    _step("tamper", TAMPER),
    _step("costs", form(_costs)),
    _step("devices", form(_devices_listed)),
    _step("expect", form(_expect)),
    name="a step",
)


def _read_step(item: YamlField, _: str) -> Step:
    fields = STEPS.fields(item)
    if len(fields) != 1:
        raise item.refuse(f"a step does one thing, one of {', '.join(STEPS.keys)}; this one has {len(fields)}")
    (action,) = STEPS.made(fields).values()
    return Step(action, item.plain(), item.line)


STEP = form(_read_step)
