"""The comparison of hint policies on two nodes: how many pairs each admits, and the rows with one hint a provider.

``hints/one-hint-each.csv`` and the counts come from a cross product by the policies' rules; for today's policies the
kubelet's own merge (v1.36.3) gave the same. A cell is the affinity, the preferred flag, and whether it is admitted.
"""

import csv
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from policies.hints import POLICIES, ComparedPair, Verdict, compared_pairs

FOLDER = Path(__file__).resolve().parent / "hints"


@cache
def pairs() -> tuple[ComparedPair, ...]:
    return tuple(compared_pairs(2))


def has_masks_only(pair: ComparedPair) -> bool:
    return not any("any" in text for text in pair.providers)


def has_one_mask_each(pair: ComparedPair) -> bool:
    return has_masks_only(pair) and not any(" " in text for text in pair.providers)


def of(pair: ComparedPair, policy: str) -> Verdict:
    return pair.verdicts[POLICIES.index(policy)]


def admitted(some: list[ComparedPair]) -> Counter[str]:
    return Counter(policy for pair in some for policy in POLICIES if of(pair, policy).admit == "yes")


@pytest.mark.parametrize(
    ("rows", "strict_2019", "proposed_strict", "equal_only", "restricted", "single_numa_node"),
    [(784, 400, 256, 464, 256, 184), (676, 361, 217, 386, 217, 153), (36, 9, 3, 6, 3, 2)],
)
def test_so_many_pairs_each_policy_admits(
    rows: int, strict_2019: int, proposed_strict: int, equal_only: int, restricted: int, single_numa_node: int
) -> None:
    choose = {784: lambda pair: True, 676: has_masks_only, 36: has_one_mask_each}[rows]
    some = [pair for pair in pairs() if choose(pair)]
    assert len(some) == rows
    assert admitted(some) == {
        "none": rows,
        "best-effort": rows,
        "best-effort-2019": rows,
        "strict-2019": strict_2019,
        "proposed-strict": proposed_strict,
        "equal-only": equal_only,
        "restricted": restricted,
        "single-numa-node": single_numa_node,
    }


def test_the_rows_with_one_hint_a_provider_are_those_recorded() -> None:
    rows = {pair.providers: pair for pair in pairs() if has_one_mask_each(pair)}
    with (FOLDER / "one-hint-each.csv").open() as file:
        recorded = list(csv.DictReader(file))
    assert len(recorded) == len(rows) == 36
    for row in recorded:
        pair = rows[row.pop("provider0"), row.pop("provider1")]
        found = {policy: of(pair, policy) for policy in row}
        assert {p: " ".join(filter(None, (v.affinity, v.preferred, v.admit))) for p, v in found.items()} == row


def test_the_proposal_of_2019_is_what_restricted_does_today() -> None:
    for pair in pairs():
        proposed, restricted = of(pair, "proposed-strict"), of(pair, "restricted")
        assert proposed.admit == restricted.admit
        assert proposed.admit == "no" or proposed.affinity == restricted.affinity


def test_strict_admitted_what_restricted_refuses_and_never_the_other_way_round() -> None:
    strict = {pair.providers for pair in pairs() if of(pair, "strict-2019").admit == "yes"}
    restricted = {pair.providers for pair in pairs() if of(pair, "restricted").admit == "yes"}
    assert (len(strict - restricted), restricted - strict) == (144, set())


def test_so_often_the_best_effort_of_2019_differs_from_todays() -> None:
    masks_only = [pair for pair in pairs() if has_masks_only(pair)]
    differing = [pair for pair in masks_only if of(pair, "best-effort-2019") != of(pair, "best-effort")]
    empty = [pair for pair in masks_only if of(pair, "best-effort-2019") == Verdict("00", "T", "yes")]
    assert (len(differing), len(list(filter(has_one_mask_each, differing))), len(empty)) == (248, 12, 32)
