from policies.hints import Hint


def test_equal_hints_are_one() -> None:
    assert len({Hint(None, True), Hint(None, True), Hint(0, True)}) == 2
