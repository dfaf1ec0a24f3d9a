"""The cheapest set against enumeration: thousands of small random graphs, with all options."""

from itertools import product
from random import Random

import pytest

from policies.costs.anneal import anneal
from policies.costs.exact import ExactSearch
from policies.costs.graph import Missing
from policies.costs.greedy import take_greedily
from policies.costs.model import CostLine, CostListing
from policies.costs.table import Normalize, compile_costs
from policies.costs.text import cost_line, cost_text
from tests.unit.policies.costs.build import cheapest_by_enumeration, graph_of, random_listing, random_request

CASES = 400


@pytest.mark.parametrize(("missing", "seed"), list(product(Missing, range(3))))
def test_exact_is_what_enumeration_finds_and_the_others_are_never_better(missing: Missing, seed: int) -> None:
    random = Random(seed)
    for _ in range(CASES):
        listing = random_listing(random, alike=0.5, known=random.choice((0.2, 0.6, 1.0)))
        wanted = random_request(random, listing)
        graph = graph_of(listing, wanted, missing)
        best = cheapest_by_enumeration(listing, wanted, missing)
        greedy = take_greedily(graph)
        walked = anneal(graph, greedy, Random(seed), steps=100)
        assert best <= graph.cost(walked) <= graph.cost(greedy)
        found = ExactSearch(graph, greedy).run(None)
        assert (graph.cost(found.counts), found.is_proved) == (best, True)
        for steps in (0, 20):
            early = ExactSearch(graph, walked).run(steps)
            assert best <= graph.cost(early.counts) <= graph.cost(walked)
            assert early == ExactSearch(graph, walked).run(steps)
            assert not early.is_proved or graph.cost(early.counts) == best


def test_renaming_instances_changes_no_cost() -> None:
    random = Random(9)
    for _ in range(CASES // 4):
        listing = random_listing(random, alike=0.5, known=0.6)
        wanted = random_request(random, listing)
        numbers = list(range(len(listing.present)))
        random.shuffle(numbers)
        new = {name: f"{name.split('/')[0]}/n{number}" for name, number in zip(listing.present, numbers, strict=True)}
        renamed = CostListing(
            tuple(CostLine((new[line.sources[0]],), line.cost, (new[line.targets[0]],)) for line in listing.lines),
            tuple(new.values()),
        )
        graph = graph_of(listing, wanted)
        other = graph_of(
            renamed,
            type(wanted)(wanted.counts, frozenset(new[n] for n in wanted.busy), frozenset(new[n] for n in wanted.must)),
        )
        costs = [g.cost(ExactSearch(g, take_greedily(g)).run(None).counts) for g in (graph, other)]
        assert costs[0] == costs[1]


def test_what_is_written_is_read_again() -> None:
    random = Random(4)
    for _ in range(CASES // 4):
        listing = random_listing(random, alike=0.8, known=0.5)
        assert compile_costs(read_again(listing)) == compile_costs(CostListing(listing.lines))


def read_again(listing: CostListing) -> CostListing:
    """The listing of its text, read by hand: two levels of items."""
    lines, source, cost, targets = [], "", "", list[tuple[str, int]]()
    for row in [*cost_text(listing).splitlines(), "end:"]:
        if not row.startswith("    - ") and targets:
            lines.append(cost_line((source, 0), (cost, 0), targets))
            targets = []
        if row.startswith("    - "):
            targets.append((row.strip(" -"), 0))
        elif row.startswith("  - "):
            cost = row.strip(" -:")
        else:
            source = row.removesuffix(":")
    return CostListing(tuple(lines))


@pytest.mark.parametrize("normalize", Normalize)
def test_normalised_costs_keep_their_order_within_a_type(normalize: Normalize) -> None:
    random = Random(6)
    for _ in range(CASES // 4):
        listing = random_listing(random, alike=0.2, known=0.6)
        plain, scaled = compile_costs(listing), compile_costs(listing, normalize)
        for before, after in zip(plain.costs, scaled.costs, strict=True):
            assert before.keys() == after.keys()
            assert sorted(before, key=lambda to: (before[to], to)) == sorted(after, key=lambda to: (after[to], to))
        if normalize is not Normalize.NONE:
            assert all(value <= 100 * scaled.scale for row in scaled.costs for value in row.values())
