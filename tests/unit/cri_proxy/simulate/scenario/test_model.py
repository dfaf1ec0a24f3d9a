from cri_proxy.simulate.scenario.amounts import Amounts


def test_amounts_are_empty_until_something_is_said_even_zero() -> None:
    assert Amounts(cpu_mcpu=0) != Amounts()
