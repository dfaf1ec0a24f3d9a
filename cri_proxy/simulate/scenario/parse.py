"""Read scenario files (docs/reference/scenarios.md): YAML documents into values; every error names its line."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.expect.expressions import check
from cri_proxy.simulate.scenario import node_steps, pod_steps
from cri_proxy.simulate.scenario.fields import MAX_BYTES, Field, documents
from cri_proxy.simulate.scenario.model import Action, Delete, Expect, OnContainer, Reconfigure, Scenario, Step
from cri_proxy.simulate.scenario.pod_steps import container_reference, pod_reference

TOP_KEYS = ("about", "machine", "config", "steps")
STEP_KEYS = (
    *("create", "stop", "exit", "restart-container", "update", "delete"),
    *("reconfigure", "restart", "reset", "advance", "offline", "online", "tamper"),
    "expect",
)


def read_scenarios(path: str) -> Iterator[Scenario | ScenarioError]:
    """Yield every document of a file as a scenario, or its error; ``-`` is standard input.

    A wrong document does not stop those after it; text that is not YAML ends the file. Raises nothing.
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
    """Return the only scenario of this text. Raises ScenarioError."""
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


def _scenario(source: str, document: Field) -> Scenario:
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
        config=node_steps.options(fields.get("config"), "config"),
        steps=tuple(_step(item) for item in fields["steps"].items("steps")) if "steps" in fields else (),
        about=" ".join(about.text("about").split()) if about is not None else "",
    )


def _step(item: Field) -> Step:
    fields = item.mapping(STEP_KEYS, "a step")
    if len(fields) != 1:
        raise item.refuse(f"a step does one thing, one of {', '.join(STEP_KEYS)}; this one has {len(fields)}")
    ((key, value),) = fields.items()
    return Step(_action(key, value), item.plain(), item.line)


def _action(key: str, value: Field) -> Action:
    match key:
        case "stop" | "exit" | "restart-container":
            return OnContainer(key, container_reference(value, key))
        case "delete":
            return Delete(pod_reference(value))
        case "reconfigure":
            return Reconfigure(node_steps.options(value, "reconfigure"))
    return _PARSERS[key](value)


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


_PARSERS: Mapping[str, Callable[[Field], Action]] = {
    "create": pod_steps.create,
    "update": pod_steps.update,
    "restart": node_steps.restart,
    "reset": node_steps.reset,
    "advance": node_steps.advance,
    "offline": node_steps.offline,
    "online": node_steps.online,
    "tamper": node_steps.tamper,
    "expect": _expect,
}
