"""Scenario files: YAML documents into values, strictly, every complaint with its line (design section 5.2)."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cri_proxy.simulate.amounts import CONTAINER_KEYS, UPDATE_KEYS, amounts_of
from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.expressions import check
from cri_proxy.simulate.located import Located, documents
from cri_proxy.simulate.scenario import (
    Action,
    Create,
    Delete,
    Expect,
    NewContainer,
    OnContainer,
    Reconfigure,
    Restart,
    Scenario,
    Step,
    Update,
)
from policies.base import Labels, QosClass
from sysfs.pci import is_address

TOP_KEYS = ("about", "machine", "config", "steps")
STEP_KEYS = (
    "create",
    "stop",
    "exit",
    "restart-container",
    "update",
    "delete",
    "reconfigure",
    "restart",
    "expect",
)
CREATE_KEYS = ("pod", "namespace", "qos", "annotations", "labels", "containers")
MAX_BYTES = 4 << 20
_QOS = {"guaranteed": QosClass.GUARANTEED, "burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}


def read_scenarios(path: str) -> Iterator[Scenario | ScenarioError]:
    """Every document of a file as a scenario, or what is wrong with it; ``-`` is standard input.

    A document that is wrong does not stop those after it; text that is no YAML ends the file. Raises nothing.
    """
    try:
        text = _read(path)
        for document in documents(text, path):
            try:
                yield _scenario(path, document)
            except ScenarioError as error:
                yield error
    except ScenarioError as error:
        yield error


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """The one scenario of this text. Raises ScenarioError."""
    found = list(documents(text, source))
    if len(found) != 1:
        raise ScenarioError(source, 0, f"expected one document, got {len(found)}")
    return _scenario(source, found[0])


def _read(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ScenarioError(path, 0, f"larger than {MAX_BYTES} bytes; cut it into several files")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ScenarioError(path, 0, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(path, 0, f"not UTF-8: byte {data[error.start]:#04x}") from None


def _scenario(source: str, document: Located) -> Scenario:
    fields = document.mapping(TOP_KEYS, "the scenario")
    if "machine" not in fields:
        raise document.refuse("the scenario names no machine; add machine: with a description, an archive or host")
    machine = fields["machine"]
    spec = machine.plain()
    about = fields.get("about")
    return Scenario(
        source=source,
        line=document.line,
        machine=spec if isinstance(spec, Mapping) else machine.text("machine"),
        config=_options(fields.get("config"), "config"),
        steps=tuple(_step(item) for item in fields["steps"].items("steps")) if "steps" in fields else (),
        about=" ".join(about.text("about").split()) if about is not None else "",
    )


def _options(part: Located | None, what: str) -> Mapping[str, object]:
    if part is None or part.is_null:
        return {}
    value = part.plain()
    if not isinstance(value, Mapping):
        raise part.refuse(f"{what}: expected a mapping of options, got {part.shown()}")
    return value


def _step(item: Located) -> Step:
    fields = item.mapping(STEP_KEYS, "a step")
    if len(fields) != 1:
        raise item.refuse(f"a step does one thing, one of {', '.join(STEP_KEYS)}; this one has {len(fields)}")
    ((key, value),) = fields.items()
    return Step(_action(key, value), item.plain(), item.line)


def _action(key: str, value: Located) -> Action:
    match key:
        case "stop" | "exit" | "restart-container":
            return OnContainer(key, _reference(value, key))
        case "delete":
            return Delete(_pod_reference(value))
        case "reconfigure":
            return Reconfigure(_options(value, "reconfigure"))
    parse: dict[str, Callable[[Located], Action]] = {
        "create": _create,
        "update": _update,
        "restart": _restart,
        "expect": _expect,
    }
    return parse[key](value)


def _restart(value: Located) -> Restart:
    match value.text("restart"):
        case ("proxy" | "runtime" | "both") as what:
            return Restart(what)
    raise value.refuse(f"restart: expected proxy, runtime or both, got {value.shown()}")


def _create(value: Located) -> Create:
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
    namespace = fields.get("namespace")
    return Create(
        pod=_name(fields["pod"], "pod"),
        namespace=_name(namespace, "namespace") if namespace is not None else None,
        qos=qos,
        annotations=_pairs(fields.get("annotations"), "annotations"),
        labels=_pairs(fields.get("labels"), "labels"),
        containers=containers,
    )


def _container(item: Located, qos: QosClass | None) -> NewContainer:
    fields = item.mapping(CONTAINER_KEYS, "a container")
    if "name" not in fields:
        raise item.refuse("a container: name is missing")
    devices = fields["devices"].items("devices") if "devices" in fields else []
    return NewContainer(
        _name(fields["name"], "name"),
        amounts_of(item, fields, qos),
        tuple(_address(device) for device in devices),
    )


def _address(value: Located) -> str:
    """A PCI address, as machines and CDI names spell it."""
    text = value.text("devices").lower()
    full = text if text.count(":") == 2 else f"0000:{text}"
    if not is_address(full):
        raise value.refuse(f"devices: expected a PCI address like 0000:3b:00.0, got {value.shown()}")
    return full


def _update(value: Located) -> Update:
    fields = value.mapping(UPDATE_KEYS, "update")
    if "container" not in fields:
        raise value.refuse("update: container is missing; name it as pod/container")
    amounts = amounts_of(value, fields, None)
    if amounts.is_empty:
        raise value.refuse("update: nothing is changed; give cpu, memory, or requests and limits")
    return Update(_reference(fields["container"], "update"), amounts)


def _expect(value: Located) -> Expect:
    expressions = []
    for item in [value] if value.is_scalar else value.items("expect"):
        text = item.text("expect")
        problem = check(text)
        if problem:
            raise item.refuse(f"expect: {text}: {problem}")
        expressions.append(text)
    return Expect(tuple(expressions))


def _qos(value: Located | None) -> QosClass | None:
    if value is None or value.is_null:
        return None
    text = value.text("qos").lower().replace("-", "").replace("_", "").replace(" ", "")
    if text not in _QOS:
        raise value.refuse(f"qos: expected guaranteed, burstable or besteffort, got {value.shown()}")
    return _QOS[text]


def _pairs(value: Located | None, what: str) -> Labels:
    """Texts by key, sorted; a list or mapping as an annotation's value is its JSON."""
    if value is None or value.is_null:
        return ()
    found = {
        key: entry.text(what) if entry.is_scalar else json.dumps(entry.plain())
        for key, entry in value.entries(what).items()
    }
    return tuple(sorted(found.items()))


def _name(value: Located, what: str) -> str:
    text = value.text(what)
    if not text or "/" in text or text != text.strip():
        raise value.refuse(f"{what}: expected a name without slashes, got {value.shown()}")
    return text


def _reference(value: Located, what: str) -> str:
    text = value.text(what)
    if len(text.split("/")) not in {2, 3} or not all(text.split("/")):
        raise value.refuse(f"{what}: expected pod/container or namespace/pod/container, got {value.shown()}")
    return text


def _pod_reference(value: Located) -> str:
    text = value.text("delete")
    if len(text.split("/")) not in {1, 2} or not all(text.split("/")):
        raise value.refuse(f"delete: expected a pod's name, or namespace/pod, got {value.shown()}")
    return text
