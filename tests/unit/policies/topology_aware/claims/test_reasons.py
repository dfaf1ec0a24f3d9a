"""What is said about CPUs that another allocator chose: the claim, the CPUs, who is in the way, and what to do."""

from policies.base import CpuKind, Grant
from policies.claims import CpuClaim
from policies.topology_aware.claims import reasons
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import four_nodes, request, tree_of

CLAIM = CpuClaim(CpuSet.parse("4-5"), "DRA_CPUSET_a")


def owner(name: str, owned: str, claim: CpuClaim | None = None) -> Grant:
    return Grant(request(name, claim=claim), "root", CpuKind.EXCLUSIVE, CpuSet.parse(owned))


def test_what_was_decided_elsewhere_names_the_claim_and_the_pool() -> None:
    reason = reasons.decided_elsewhere(CLAIM, owner("a/c", "4-5"))
    assert reason.text == "CPUs 4-5 are its own, decided elsewhere by DRA_CPUSET_a, in root"


def test_a_size_that_differs_is_told_in_both_numbers() -> None:
    text = reasons.other_size(CLAIM, 1500).text
    assert text == "DRA_CPUSET_a has 2 of them, where 1500m are requested: what was decided elsewhere counts"


def test_what_is_cut_off_a_claim_is_named() -> None:
    text = reasons.cut(CLAIM, CpuSet.parse("4")).text
    assert text == "DRA_CPUSET_a claims CPUs 4-5, and CPU 5 is not available: it has CPU 4 until they are"


def test_what_comes_back_to_a_claim_is_named() -> None:
    text = reasons.came_back(CLAIM, CpuSet.parse("5")).text
    assert text == "CPU 5 is available again, of those that DRA_CPUSET_a claims"


def test_of_many_owners_the_first_ones_are_named() -> None:
    others = [owner(f"{n}/c", "5", CLAIM if n == 0 else None) for n in range(6)]
    text = reasons.owned(CLAIM, CLAIM.cpus, others).text
    assert "owned by 0/c (by DRA_CPUSET_a), 1/c, 2/c, 3/c and 2 more" in text
    assert "2/c, 3/c: end that" in reasons.owned(CLAIM, CLAIM.cpus, others[:4]).text


def test_of_a_claim_that_cannot_be_had_at_all_no_part_is_named() -> None:
    one = CpuClaim(CpuSet.parse("5"), "x")
    assert "x claims CPU 5, which is owned by 1/c" in reasons.owned(one, one.cpus, [owner("1/c", "5")]).text
    assert "claims CPUs 4-5, which are owned by 1/c" in reasons.owned(CLAIM, CLAIM.cpus, [owner("1/c", "4-5")]).text


def test_every_refusal_says_what_to_do() -> None:
    tree = tree_of(four_nodes(offline="12"), "0")
    texts = [reasons.unavailable(CpuClaim(c, "x"), c, tree).text for c in map(CpuSet.parse, ("99", "12", "0"))]
    assert all(": " in text and "allocator" in text for text in texts)


def test_containers_that_cannot_be_pinned_are_mentioned() -> None:
    assert reasons.contested(CpuSet.parse("5")).text.startswith("CPU 5: containers with a cpuset of their own")
    assert reasons.contested_by_stuck(CLAIM, CpuSet.parse("5")).text == (
        "DRA_CPUSET_a claims CPUs 4-5; other containers could not be moved from CPU 5, and it may have no others: "
        "restart or remove the containers that explain and status name"
    )


def test_too_few_shared_cpus_are_told_with_what_was_granted() -> None:
    assert "which were granted 3500m" in reasons.too_few_left(CLAIM, CLAIM.cpus, 3500).text
