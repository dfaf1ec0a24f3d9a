"""``cri-proxy select``: choose the cheapest set of devices and CPUs of a listing of costs."""

import argparse
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import Final

from cri_proxy.cli.arguments import argument, write_text
from cri_proxy.cli.documents import Document, DocumentCommand, DocumentOption, choice
from cri_proxy.cli.help.parser import WithoutEffect
from cri_proxy.cli.render.select import SelectAnswer, cost_number, select_text
from cri_proxy.costs.cost_file import COSTS, cost_errors_at, read_costs
from cri_proxy.foreign_text import visible_lines
from policies.devices.costs import (
    CannotSelect,
    CostGraph,
    CostTable,
    Missing,
    Normalize,
    Selection,
    SelectMethod,
    SelectOptions,
    SetRequest,
    build_graph,
    compile_costs,
    names_of,
    select,
    unique_names,
    with_colons,
)
from sysfs.documents.forms import FIELD, whole
from sysfs.documents.table import KeyRow, Table
from sysfs.known_words import short_repr

EXAMPLE = """\
cri-proxy select configs/costs/gpus.yaml --request example.com/gpu=2,example.com/nic=1,cpu=8
cri-proxy select configs/costs/gpus.yaml --request example.com/gpu=2 --busy example.com/gpu/gpu0 -o json
cri-proxy select configs/costs/gpus.yaml --request example.com/gpu=2 --picture costs.dot"""

# The search of a larger request may not end by itself; a person who waits longer says so.
DEFAULT_BUDGET_MS = 2000
DOCUMENT = Table(
    lambda **given: given,
    *COSTS,
    KeyRow("request", FIELD, "how many instances of each type the set has: `{TYPE: COUNT}`"),
    KeyRow("busy", FIELD, "instances that are taken"),
    KeyRow("must", FIELD, "instances that the set must have"),
    KeyRow("options", FIELD, "options of the command by their names; the command line beats them"),
    name="the document",
)


def _parts(text: str) -> list[str]:
    """Return the items of a list of the command line; a space after a comma is no part of a name."""
    return [part for part in map(str.strip, text.split(",")) if part]


def _request(text: str) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for part in _parts(text):
        kind, equals, count = map(str.strip, part.rpartition("="))
        if not equals or not kind:
            raise ValueError(f"expected TYPE=COUNT, got {short_repr(part)}")
        if kind in counts:
            raise ValueError(f"{kind} is requested twice")
        counts[kind] = whole(count)
    return counts


def _names(text: str) -> frozenset[str]:
    """Return the instances of a list of names, in which ranges may overlap."""
    return frozenset(name for token in _parts(text) for name in names_of(token))


def _names_once(text: str) -> frozenset[str]:
    return frozenset(unique_names([(token, 0) for token in _parts(text)]))


REQUEST: DocumentOption[Mapping[str, int]] = DocumentOption(
    "request", _request, {}, "how many instances of each type the set has", "TYPE=COUNT,…"
)
BUSY: DocumentOption[frozenset[str]] = DocumentOption(
    "busy", _names, frozenset(), "instances that are taken; NAME0-3 is a range", "NAME,…"
)
MUST: DocumentOption[frozenset[str]] = DocumentOption(
    "must", _names_once, frozenset(), "required instances; they count towards the request", "NAME,…"
)
MISSING = choice("missing", Missing.ZERO, "an unknown cost is zero (default), or mirror: that of the other direction")
NORMALIZE = choice(
    "normalize",
    Normalize.NONE,
    "scale the largest cost to 100: none (default), per-type-max: that of each source type, global: that of all",
)
METHOD = choice(
    "method", SelectMethod.AUTO, "auto (default): exact within the budget, else the best that any of the three finds"
)
BUDGET_MS = DocumentOption(
    "budget-ms",
    whole,
    DEFAULT_BUDGET_MS,
    f"milliseconds that the exact search may take (default {DEFAULT_BUDGET_MS})",
    "N",
)
SEED = DocumentOption("seed", whole, 0, "seed of the annealing (default 0)", "N")
OPTIONS: tuple[DocumentOption[object], ...] = (REQUEST, BUSY, MUST, MISSING, NORMALIZE, METHOD, BUDGET_MS, SEED)

WITHOUT_EFFECT: Final = (
    WithoutEffect(("--seed",), "with --method greedy", lambda args: args.method is SelectMethod.GREEDY),
    WithoutEffect(
        ("--budget-ms",),
        "without --method auto or exact",
        lambda args: args.method in (SelectMethod.GREEDY, SelectMethod.ANNEAL),
    ),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    COMMAND.register(parser)
    parser.add_argument(
        "--picture",
        type=argument(_picture_path),
        metavar="FILE",
        help="write the graph and the set for Graphviz: FILE.dot",
    )
    parser.set_defaults(is_drawn=False)


def _picture_path(text: str) -> Path:
    if Path(text).suffix != ".dot":
        raise ValueError(f"expected a name that ends in .dot, got {text!r}; draw it with dot -Tsvg")
    return Path(text)


def _answer(document: Document) -> SelectAnswer:
    root = document.root
    if root.entries("the document").keys().isdisjoint(DOCUMENT.keys):
        listing = read_costs(root)
    else:
        fields = DOCUMENT.fields(root)
        listing = read_costs(fields.pop("costs", None), fields.pop("present", None))
        document = replace(document, options={**document.options, **fields})
    wanted = SetRequest(document.option(REQUEST), document.option(BUSY), document.option(MUST))
    options = SelectOptions(document.option(METHOD), document.option(MISSING), document.option(SEED), steps=None)
    budget_ms = document.option(BUDGET_MS)
    start = perf_counter()
    end = monotonic() + budget_ms / 1000
    with cost_errors_at(root):
        table = compile_costs(listing, document.option(NORMALIZE))
    selection = select(table, wanted, options, lambda: monotonic() >= end)
    elapsed_ms = round(1000 * (perf_counter() - start), 3)
    if isinstance(selection, CannotSelect):
        raise root.refuse(selection.problem)
    if document.args.picture is not None:
        _draw(document, build_graph(table, wanted, options.missing), selection)
    return SelectAnswer(selection, _warnings(wanted.busy, selection, table), budget_ms, elapsed_ms)


def _warnings(busy: Collection[str], selection: Selection, table: CostTable) -> tuple[str, ...]:
    found = []
    if selection.silent:
        say, their = ("says", "its") if len(selection.silent) == 1 else ("say", "their")
        found.append(
            f"{', '.join(selection.silent)}: {say} nothing about costs, which counts as 0, while other free instances "
            f"of {their} type do: list {their} costs, or count one-way costs both ways with --missing mirror"
        )
    present = {name for group in table.groups for name in group.members}
    unknown = sorted(set(busy) - present)
    if unknown:
        found.append(f"busy, but not present: {', '.join(unknown)}")
    return tuple(found)


def _plain(answer: SelectAnswer) -> dict[str, object]:
    selection = answer.selection
    return {
        "cost": cost_number(selection.cost),
        "set": list(selection.names),
        "method": str(selection.method),
        "optimal": selection.is_optimal,
        "greedy_cost": cost_number(selection.greedy_cost),
        "terms": [
            {"types": list(term.types), "pairs": term.pairs, "cost": cost_number(term.cost)} for term in selection.terms
        ],
        "warnings": list(answer.warnings),
        "steps": selection.steps,
        "elapsed_ms": answer.elapsed_ms,
    }


def _draw(document: Document, graph: CostGraph | CannotSelect, selection: Selection) -> None:
    from policies.devices.costs import dot

    if document.args.is_drawn:
        raise document.root.refuse("--picture draws one document; leave one in the file")
    if isinstance(graph, CannotSelect):
        raise document.root.refuse(graph.problem)
    document.args.is_drawn = True
    write_text(document.args.picture, visible_lines(dot(graph, selection)))


COMMAND = DocumentCommand(OPTIONS, _answer, select_text, plain=_plain, repaired=with_colons)
run = COMMAND.run
