from tests.unit.policies.build import BURSTABLE, before, fill, four_nodes, placed, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")


def test_a_grant_of_the_container_itself_is_not_in_its_way() -> None:
    decision = placed(POLICY.decide(fill(POLICY, request("a/c", 15000)), request("a/c", 15000)))
    assert len(decision.grant.owned) == 15


def test_updates_are_those_against_what_is_pinned_now() -> None:
    """A resize hands CPUs back: others grow, as its old grant still stands in what is held."""
    held = fill(POLICY, request("a/c", 3000, previous=before("NUMA node #1", "4-6")))
    held = fill(POLICY, request("s/c", 100, BURSTABLE, previous=before("NUMA node #1")), held=held)
    decision = placed(POLICY.decide(held, request("a/c", 1000, previous=before("NUMA node #1", "4-6"))))
    assert str(decision.grant.owned) == "6"
    assert [str(u.pinning.cpus) for u in decision.updates] == ["4-5,7"]


def test_what_others_lose_is_among_the_reasons() -> None:
    held = fill(POLICY, request("s/c", 100, BURSTABLE, levels_up=2))
    decision = placed(POLICY.decide(held, request("a/c", 2000)))
    texts = [reason.text for reason in decision.reasons if reason.code == "displaced"]
    assert texts == ["CPUs 4-5 are no longer shared: 1 other container changed"]
