"""Parse scenario files (docs/reference/scenarios.md), YAML with several documents, into ``Scenario`` values."""

from collections.abc import Iterator, Mapping

from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.scenario.costs import read_cost_text
from cri_proxy.simulate.scenario.fields import MAX_BYTES, Field, documents
from cri_proxy.simulate.scenario.inventory import read_listed
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.steps import read_options, read_step
from policies.devices.model import EMPTY_INVENTORY

TOP_KEYS = ("about", "machine", "costs", "devices", "config", "steps")


def read_scenarios(path: str) -> Iterator[Scenario | ScenarioError]:
    """Yield every document of a file as a scenario, or its error; ``-`` is standard input.

    A wrong document does not stop those after it; text that is not YAML ends the file. Raises nothing.
    """
    try:
        text = Field.read_text(path, MAX_BYTES)
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
        config=read_options("config", fields.get("config")),
        steps=tuple(map(read_step, fields["steps"].items("steps"))) if "steps" in fields else (),
        about=" ".join(about.text("about").split()) if about is not None else "",
        costs=read_cost_text(fields["costs"]) if "costs" in fields else None,
        listed=read_listed(fields["devices"]) if "devices" in fields else EMPTY_INVENTORY,
    )
