"""The cheapest set against enumeration: thousands of small random graphs, with all options."""

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from policies.devices.costs import (
    CostLine,
    CostListing,
    Missing,
    Normalize,
    SelectMethod,
    SelectOptions,
    SetRequest,
    compile_costs,
    cost_line,
    cost_text,
    type_of,
)
from tests.unit.policies.devices.costs.build import CostOracle, random_listing, random_request, selected

CASES = 400
METHODS = (SelectMethod.GREEDY, SelectMethod.ANNEAL, SelectMethod.EXACT)


@pytest.mark.parametrize(("missing", "seed"), list(product(Missing, range(3))))
def test_exact_is_what_enumeration_finds_and_the_others_are_never_better(missing: Missing, seed: int) -> None:
    random = Random(seed)
    for _ in range(CASES):
        listing = random_listing(random, alike=0.5, known=random.choice((0.2, 0.6, 1.0)))
        wanted = random_request(random, listing)
        options = SelectOptions(SelectMethod.EXACT, missing, seed, steps=None, walk_steps=100)
        best = CostOracle(listing, missing).cheapest(wanted)
        greedy, walked, found = (selected(listing, wanted, replace(options, method=method)) for method in METHODS)
        assert best <= walked.cost <= greedy.cost == found.greedy_cost
        assert (found.cost, found.is_optimal) == (best, True)
        for steps in (0, 20):
            early = selected(listing, wanted, replace(options, steps=steps))
            assert best <= early.cost <= walked.cost
            assert early == selected(listing, wanted, replace(options, steps=steps))
            assert not early.is_optimal or early.cost == best


def test_a_set_meets_its_request_and_costs_the_sum_over_its_pairs() -> None:
    random = Random(8)
    for _ in range(CASES):
        listing = random_listing(random, alike=0.5, known=0.5)
        wanted = random_request(random, listing)
        missing, method = random.choice(list(Missing)), random.choice(list(SelectMethod))
        answer = selected(listing, wanted, SelectOptions(method, missing, steps=50, walk_steps=20))
        assert wanted.must <= frozenset(answer.names)
        assert wanted.busy.isdisjoint(answer.names)
        assert Counter(map(type_of, answer.names)) == wanted.counts
        assert answer.cost == CostOracle(listing, missing).cost(answer.names) == sum(term.cost for term in answer.terms)


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
        busy, must = (frozenset(new[name] for name in names) for names in (wanted.busy, wanted.must))
        other = selected(renamed, SetRequest(wanted.counts, busy, must), SelectOptions(steps=None))
        assert other.cost == selected(listing, wanted, SelectOptions(steps=None)).cost


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
