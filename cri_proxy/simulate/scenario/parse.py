"""Parse scenario files (docs/reference/scenarios.md), YAML with several documents, into ``Scenario`` values."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.simulate.scenario.costs import read_cost_text, read_listed
from cri_proxy.simulate.scenario.model import Create, Scenario, Step
from cri_proxy.simulate.scenario.steps import STEP, read_options
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.documents.forms import each, form, scalar
from sysfs.documents.table import KeyRow, Table

_DIALECT = Dialect(max_bytes=4 << 20, max_depth=40, max_nodes=200_000, has_aliases=True)


def _machine(value: YamlField, what: str) -> str | Mapping[str, object]:
    spec = value.plain()
    return spec if isinstance(spec, Mapping) else value.text(what)


_NO_MACHINE = "machine is missing; give a description, an archive or host"
SCENARIO = Table(
    partial(Scenario, config={}, steps=()),
    KeyRow("about", scalar(lambda text: " ".join(text.split())), "a sentence that says what it shows"),
    KeyRow("machine", form(_machine), "a description, `host`, a directory, or an archive", _NO_MACHINE),
    KeyRow("costs", form(read_cost_text), "costs of devices, or the path of a cost file"),
    KeyRow("devices", form(read_listed), "an inventory, or the path of its file", field="listed"),
    KeyRow("config", form(read_options), "options of the daemon"),
    KeyRow("steps", each(STEP), "what happens, one after the other"),
    name="the scenario",
)


def documents(text: str, source: str) -> Iterator[YamlField]:
    """Yield the documents of a file, without empty ones. Raises DocumentError for what is not YAML."""
    return YamlField.documents(text, source, _DIALECT)


def scenarios_in(text: str, path: str) -> Iterator[Scenario | DocumentError]:
    """Yield every document of a text as a scenario, or its error.

    A wrong document does not stop those after it; text that is not YAML ends the file. Raises nothing.
    """
    try:
        for document in documents(text, path):
            try:
                yield _scenario(path, document)
            except DocumentError as error:
                yield error
    except DocumentError as error:
        yield error


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """Return the only scenario of this text. Raises DocumentError."""
    found = list(documents(text, source))
    if len(found) != 1:
        raise DocumentError(source, 0, f"expected one document, got {len(found)}")
    return _scenario(source, found[0])


def _scenario(source: str, document: YamlField) -> Scenario:
    found = SCENARIO.made(SCENARIO.fields(document), source=source, line=document.line)
    return replace(found, steps=tuple(copy for step in found.steps for copy in _copies(step)))


def _copies(step: Step) -> Iterator[Step]:
    """Yield a step for each pod that it creates."""
    create = step.action
    if not isinstance(create, Create) or create.count == 1:
        yield step
        return
    for number in range(create.count):
        yield replace(step, action=replace(create, pod=f"{create.pod}-{number}", count=1))
