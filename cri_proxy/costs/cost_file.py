"""Read a listing of costs from YAML, with errors that name file, line and word."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.costs import CostError, CostLine, CostListing, cost_line, names_of, unique_names
from sysfs.documents.forms import form, list_shape, scalar_shape
from sysfs.documents.table import KeyRow, Shape

# Names in all lines, ranges counted by their members. A node with 1,792 CPUs needs 1.6 million when every core lists
# all CPUs; 4 million are read in 2 seconds and take 100 MiB.
MAX_NAMES = 4_000_000


def _targets_shape() -> Shape:
    return {"anyOf": [list_shape(), scalar_shape()]}


def _under_shape() -> Shape:
    by_cost = {"type": "object", "additionalProperties": _targets_shape()}
    return {"anyOf": [by_cost, list_shape(lambda: by_cost)]}


def listing_shape() -> Shape:
    """Return the shape of a mapping from source to costs: ``{SOURCE: {COST: [TARGET, ...]}}``, or a list of these."""
    return {"type": "object", "additionalProperties": _under_shape()}


COSTS = (
    KeyRow(
        "costs",
        form(lambda field, _: field, shape=listing_shape),
        "what the targets of each source cost, as in `{a/x: {10: [a/y]}}`; may be the whole file",
    ),
    KeyRow("present", form(lambda field, _: field, shape=list_shape), "instances that need no costs of their own"),
)
Token = tuple[str, int]


def read_costs(
    costs: YamlField | None, present: YamlField | None = None, *, most_names: int = MAX_NAMES
) -> CostListing:
    """Return the listing of a mapping from source to costs, with the instances of a list of names.

    A source without costs is an instance that says nothing. Raises DocumentError, beyond ``most_names`` too.
    """
    lines: list[CostLine] = []
    silent: list[str] = []
    count = 0
    for source, under in _sources(costs):
        before, named = len(lines), len(silent)
        for cost, targets in _costs(source[0], under):
            with cost_errors_at(targets):
                line = cost_line(source, cost, _targets(source[0], targets))
            count += len(line.sources) + len(line.targets)
            if count > most_names:
                raise targets.refuse(f"more than {most_names} names in all lines; write one source for many", cost[1])
            lines.append(line)
        if len(lines) == before:
            with cost_errors_at(under):
                silent += names_of(*source)
            count += len(silent) - named
            if count > most_names:
                raise under.refuse(f"more than {most_names} names in all lines", source[1])
    return CostListing(tuple(lines), (*silent, *read_names(present, "present")))


def read_names(field: YamlField | None, what: str) -> tuple[str, ...]:
    """Return the instances of a list of names, each once. Raises DocumentError for one that stands there twice."""
    if field is None:
        return ()
    items = field.items(what)
    with cost_errors_at(field, f"{what}: "):
        return unique_names([(item.text(what), item.line) for item in items])


def has_known_line(root: YamlField) -> bool:
    """Return whether a line of this listing is understood: a source, a cost and its targets."""
    for name, line, under in root.rows("costs") if root.is_mapping else ():
        with suppress(DocumentError):
            for cost, targets in _costs(name, under):
                with suppress(DocumentError, CostError):
                    return bool(cost_line((name, line), cost, _targets(name, targets)))
    return False


def _sources(costs: YamlField | None) -> Iterator[tuple[Token, YamlField]]:
    if costs is None or costs.is_null:
        return
    seen: dict[str, int] = {}
    for name, line, under in costs.rows("costs"):
        if name in seen:
            raise costs.refuse(f"{name!r} stands twice, first on line {seen[name]}; join them under one", line)
        seen[name] = line
        yield (name, line), under


@contextmanager
def cost_errors_at(field: YamlField, lead: str = "") -> Iterator[None]:
    """Raise an error of costs as one about this value, or about another line of its file."""
    try:
        yield
    except CostError as error:
        raise field.refuse(f"{lead}{error.token}: {error.problem}", error.line) from None


def _costs(source: str, under: YamlField) -> Iterator[tuple[Token, YamlField]]:
    """Yield each cost of a source with its targets."""
    for item in under.listed(source):
        if not item.is_mapping:
            raise item.refuse(f"{source}: expected COST: [targets], got {item.shown()}")
        yield from (((cost, line), targets) for cost, line, targets in item.rows(source))


def _targets(source: str, field: YamlField) -> list[Token]:
    return [(item.text(source), item.line) for item in field.listed(source)]
