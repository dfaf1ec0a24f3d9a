from policies.options import Option, PolicyOptions
from policies.registry import POLICIES


def test_every_policy_has_options_that_need_no_configuration() -> None:
    assert all(isinstance(policy.options(), PolicyOptions) for policy in POLICIES)


def test_an_option_may_say_little_of_itself() -> None:
    option = Option("key", "text")
    assert (option.read, option.choices, option.is_reloadable) == (None, (), True)
