import pytest

from policies.errors import PolicyOptionsError, UnknownPolicyError
from policies.hints import POLICIES, Hint, HintOrigin, Merged, MergeOptions, Nodes, Offers, merge
from policies.hints.policies import MaskOrder, distance_within

TWO = Nodes(0b11)
BOTH, LOW, HIGH = Hint(0b11, True), Hint(0b01, True), Hint(0b10, True)
DISTANCES = ((10, 21, 12), (21, 10, 12), (12, 12, 10))
GPU_AND_CPU: list[Offers] = [{"gpu": (BOTH,)}, {"cpu": (LOW, HIGH, BOTH)}]


def result(merged: Merged) -> tuple[int | None, bool, bool]:
    return merged.affinity, merged.preferred, merged.admit


def test_devices_that_need_both_nodes_and_cpus_that_may_have_both_are_aligned_by_todays_policies() -> None:
    """The scenario of the design of 2019: its best-effort parted them, its proposed strict is today's restricted."""
    assert result(merge(GPU_AND_CPU, TWO, "restricted")) == (0b11, True, True)
    assert result(merge(GPU_AND_CPU, TWO, "proposed-strict")) == (0b11, True, True)
    assert result(merge(GPU_AND_CPU, TWO, "best-effort-2019")) == (0b01, True, True)


def test_two_resources_without_a_common_node_are_refused_by_restricted_and_were_admitted_by_strict() -> None:
    offers: list[Offers] = [{"a": (LOW,)}, {"b": (HIGH,)}]
    assert result(merge(offers, TWO, "restricted")) == (0b11, False, False)
    assert result(merge(offers, TWO, "strict-2019")) == (0, True, True)


def test_the_hints_that_the_result_rests_on_name_provider_and_resource() -> None:
    offers: list[Offers] = [None, {"cpu": (LOW, HIGH), "gpu": (HIGH,)}]
    assert merge(offers, TWO, "best-effort").rests_on == (
        HintOrigin(0, "", Hint(None, True)),
        HintOrigin(1, "cpu", HIGH),
        HintOrigin(1, "gpu", HIGH),
    )


def test_one_node_that_serves_all_is_no_affinity_on_a_machine_of_one_node() -> None:
    offers: list[Offers] = [{"cpu": (Hint(0b1, True),)}]
    assert result(merge(offers, Nodes(0b1), "single-numa-node")) == (None, True, True)


def test_no_provider_has_an_opinion() -> None:
    assert result(merge([], TWO, "best-effort")) == (0b11, True, True)
    assert result(merge([], TWO, "single-numa-node")) == (None, True, True)


def test_none_admits_without_a_look() -> None:
    assert result(merge(GPU_AND_CPU, TWO, "none")) == (None, False, True)


def test_a_hint_for_nodes_beyond_the_machine_equals_only_itself() -> None:
    beyond = Hint(0b101, True)
    assert merge([{"a": (beyond,)}, {"b": (LOW,)}], TWO, "best-effort").preferred is False
    assert result(merge([{"a": (beyond,)}, {"b": (beyond,)}], TWO, "restricted")) == (0b01, True, True)


@pytest.mark.parametrize("policy", ["restricted", "proposed-strict"])
def test_of_hints_that_leave_the_same_nodes_the_result_rests_on_the_one_with_the_least_beyond(policy: str) -> None:
    offers: list[Offers] = [{"a": (Hint(0b101, True), LOW)}]
    assert [origin.hint for origin in merge(offers, TWO, policy).rests_on] == [LOW]


def test_where_nothing_is_preferred_best_effort_of_2019_takes_the_fewest_nodes_not_the_lowest() -> None:
    offers: list[Offers] = [{"a": (Hint(0b011, False), Hint(0b100, False))}]
    assert result(merge(offers, Nodes(0b111), "best-effort-2019")) == (0b100, False, True)


def test_where_no_overlap_has_the_wanted_size_the_next_smaller_one_is_taken() -> None:
    """Both resources need three nodes; they overlap in two or in one."""
    offers: list[Offers] = [{"a": (Hint(0b00111, False),)}, {"b": (Hint(0b11011, False), Hint(0b11100, False))}]
    assert result(merge(offers, Nodes(0b11111), "best-effort")) == (0b011, False, True)


def test_closer_nodes_go_first_only_where_today_s_kubelet_does_so() -> None:
    near = Nodes(0b111, ((10, 30, 12), (30, 10, 30), (12, 30, 10)))
    offers: list[Offers] = [{"a": (Hint(0b011, True), Hint(0b101, True))}]
    closest = MergeOptions(prefer_closest_numa_nodes=True)
    assert [merge(offers, near, p, closest).affinity for p in ("restricted", "proposed-strict")] == [0b101, 0b011]


def test_single_nodes_are_not_ordered_by_their_distance_to_themselves() -> None:
    far = Nodes(0b11, ((20, 30), (30, 10)))
    merged = merge([{"cpu": (LOW, HIGH)}], far, "single-numa-node", MergeOptions(prefer_closest_numa_nodes=True))
    assert merged.affinity == 0b01


def test_a_machine_may_have_as_many_nodes_as_are_allowed_and_more_where_nothing_is_merged() -> None:
    offers: list[Offers] = [{"cpu": (LOW,)}]
    eight = MergeOptions(max_allowable_numa_nodes=8)
    assert result(merge(offers, Nodes((1 << 8) - 1), "best-effort", eight)) == (0b01, True, True)
    assert result(merge(offers, Nodes((1 << 9) - 1), "none", eight)) == (None, False, True)


@pytest.mark.parametrize(
    ("options", "nodes", "problem"),
    [
        (
            MergeOptions(max_allowable_numa_nodes=7),
            TWO,
            "numa-nodes: cannot use '7': give a number from 8",
        ),
        (MergeOptions(max_allowable_numa_nodes=8), Nodes((1 << 9) - 1), "cannot use '8': the machine has 9 NUMA nodes"),
        (MergeOptions(prefer_closest_numa_nodes=True), TWO, "the distances between nodes are not known"),
        (MergeOptions(prefer_closest_numa_nodes=True), Nodes(0b11, ((10,),)), "distances: cannot use '1 rows': give 2"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: MergeOptions, nodes: Nodes, problem: str) -> None:
    with pytest.raises(PolicyOptionsError) as caught:
        merge(GPU_AND_CPU, nodes, "best-effort", options)
    assert problem in str(caught.value)


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownPolicyError, match="best-effort"):
        merge([], TWO, "strict")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_order_of_hints_and_providers_makes_no_difference(policy: str) -> None:
    offers: list[Offers] = [{"a": (LOW, Hint(0b11, False)), "b": (BOTH, HIGH)}, {"c": (Hint(None, False), HIGH)}]
    turned: list[Offers] = [{"c": (HIGH, Hint(None, False))}, {"b": (HIGH, BOTH), "a": (Hint(0b11, False), LOW)}]
    assert result(merge(offers, TWO, policy)) == result(merge(turned, TWO, policy))


def test_the_best_mask_has_the_fewest_nodes_and_then_the_lowest_ones() -> None:
    order = MaskOrder(0b111)
    assert order.best([0b111, 0b110, 0b101]) == 0b101
    assert order.best([]) == 0


def test_with_distances_the_closest_of_the_same_size_is_best() -> None:
    order = MaskOrder(0b111, DISTANCES)
    assert order.best([0b011, 0b101, 0b110]) == 0b101
    assert order.best([0b011, 0b100]) == 0b100


def test_a_size_that_no_mask_has_gives_none() -> None:
    assert MaskOrder(0b111).best_of_size([0b1, 0b10], 2) == 0
    assert MaskOrder(0b111, DISTANCES).best_of_size([0b1, 0b10], 2) == 0


def test_the_distance_within_a_set_counts_both_ways_and_each_node_itself() -> None:
    assert (distance_within(0b101, DISTANCES), distance_within(0b010, DISTANCES)) == (44, 10)


@pytest.mark.parametrize("policy", ["proposed-strict", "equal-only"])
def test_where_no_mask_is_common_to_all_the_policies_of_agreement_admit_nothing(policy: str) -> None:
    merged = merge([{"a": (LOW,)}, {"b": (HIGH,)}], TWO, policy)
    assert (*result(merged), merged.has_hint) == (None, False, False, False)
