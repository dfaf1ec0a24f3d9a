import random

import pytest

from policies.hints import POLICIES, Merged, Nodes, Verdict, compared_pairs, hint_lists, merge


def verdict(merged: Merged, nodes: int) -> Verdict:
    """The masks with the highest node left; nil, or none where there is no hint."""
    admit = "yes" if merged.admit else "no"
    affinity = "nil" if merged.affinity is None else f"{merged.affinity:0{nodes}b}"
    return Verdict(affinity, "T" if merged.preferred else "F", admit) if merged.has_hint else Verdict("none", "", admit)


def test_lists_are_every_choice_of_masks_and_any_node() -> None:
    assert [known.text for known in hint_lists(1)] == ["1:T", "1:F", "any:T", "any:F"]
    texts = [known.text for known in hint_lists(2)]
    assert (len(texts), len(set(texts))) == (28, 28)
    assert {"01:T 11:F", "01:F 10:T 11:T", "any:F"} <= set(texts)
    assert len(hint_lists(3)) == 2188


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_row_is_what_merging_the_pair_gives(nodes: int) -> None:
    """The table works out the verdicts of like pairs once; here each is merged."""
    hints = {known.text: known.hints for known in hint_lists(nodes)}
    for pair in compared_pairs(nodes):
        offers = [{"cpu": hints[text]} for text in pair.providers]
        merged = [merge(offers, Nodes((1 << nodes) - 1), policy) for policy in POLICIES]
        assert pair.verdicts == tuple(verdict(each, nodes) for each in merged)


def test_so_it_is_with_three_nodes() -> None:
    rng = random.Random(5)
    some = tuple(rng.sample(hint_lists(3), 60))
    hints = {known.text: known.hints for known in some}
    for pair in compared_pairs(3, some):
        offers = [{"cpu": hints[text]} for text in pair.providers]
        assert pair.verdicts == tuple(verdict(merge(offers, Nodes(0b111), policy), 3) for policy in POLICIES)
