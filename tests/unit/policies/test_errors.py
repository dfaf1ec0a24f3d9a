from policies.errors import PolicyOptionsError, UnknownPolicyError


def test_an_unknown_policy_is_answered_with_the_known_ones() -> None:
    text = str(UnknownPolicyError("topolgy", ("topology-aware", "none")))
    assert text == "policy: expected one of topology-aware, none, got 'topolgy'"


def test_an_option_that_cannot_be_used_comes_with_the_remedy() -> None:
    text = str(PolicyOptionsError("availableResources.cpu", "8-9", "CPUs 0-3 are online"))
    assert text == "availableResources.cpu: cannot use '8-9': CPUs 0-3 are online"
