from policies.devices.costs import CostError, name_order, type_of


def test_a_type_is_the_name_up_to_its_last_slash() -> None:
    assert type_of("example.com/foo/id0") == "example.com/foo"


def test_numbers_in_names_sort_by_value() -> None:
    assert sorted(["a/n10", "a/n9", "a/b", "a/n9x"], key=name_order) == ["a/b", "a/n9", "a/n9x", "a/n10"]


def test_an_error_names_line_and_word() -> None:
    assert str(CostError(3, "'x'", "expected a cost")) == "line 3: 'x': expected a cost"
    assert str(CostError(0, "'x'", "expected a cost")) == "'x': expected a cost"
