from fractions import Fraction

import pytest

from policies.devices.costs import (
    CostError,
    CostLine,
    CostListing,
    cost_line,
    cost_text,
    names_of,
    ranges_of,
    unique_names,
    with_colons,
)


@pytest.mark.parametrize(
    ("token", "names"),
    [
        ("cpu/cpu3", ["cpu/cpu3"]),
        ("cpu/cpu3-5", ["cpu/cpu3", "cpu/cpu4", "cpu/cpu5"]),
        ("cpu/3-4", ["cpu/3", "cpu/4"]),
        ("cpu/cpu7-7", ["cpu/cpu7"]),
        ("a/card08-10", ["a/card08", "a/card09", "a/card10"]),
        ("a/card8-10", ["a/card8", "a/card9", "a/card10"]),
        ("intel.com/fpga/fpga-2", ["intel.com/fpga/fpga2"]),
        ("intel.com/fpga/fpga-2-3", ["intel.com/fpga/fpga2", "intel.com/fpga/fpga3"]),
        ("cpu/cpu03", ["cpu/cpu3"]),
        ("cpu/cpu000", ["cpu/cpu0"]),
        ("cpu/cpu-08", ["cpu/cpu8"]),
        ("cpu/cpu08-10", ["cpu/cpu8", "cpu/cpu9", "cpu/cpu10"]),
        ("memory/node01", ["memory/node1"]),
        ("a/cpu03", ["a/cpu03"]),
        ("pci/0000:3b:00.0", ["pci/0000:3b:00.0"]),
        ("nic/eth-a", ["nic/eth-a"]),
        ("a/GPU-5a12b7cd-0011-2233-4455-667788990011", ["a/GPU-5a12b7cd-0011-2233-4455-667788990011"]),
        ("a/GPU-5a12b7cd-0011-2233-445e-667788990011", ["a/GPU-5a12b7cd-0011-2233-445e-667788990011"]),
        ("memory/all", ["memory/all"]),
    ],
)
def test_a_name_stands_for_one_instance_or_a_range(token: str, names: list[str]) -> None:
    assert list(names_of(token)) == names


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("card0", "TYPE/INSTANCE"),
        ("/card0", "TYPE/INSTANCE"),
        ("a/", "TYPE/INSTANCE"),
        ("a/b c", "TYPE/INSTANCE"),
        ("a/b0,a/b1", "TYPE/INSTANCE"),
        ("a/" + "b" * 600, "TYPE/INSTANCE"),
        ("a/b5-4", "begin with the smaller number"),
        ("a/b0-8192", "8193 names; at most 8192"),
        ("a/b0-99999999999999999999", "at most 8192"),
        (f"a/b0-{'9' * 60}", "begin with the smaller number"),
        ("a/b1-2-3", "N or N-M"),
        ("a/-3", "N or N-M"),
    ],
)
def test_a_name_that_cannot_be_read_is_named_with_its_line(token: str, problem: str) -> None:
    with pytest.raises(CostError, match=problem) as caught:
        names_of(token, 7)
    assert str(caught.value).startswith("line 7: ")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("token", "value"),
    [("0", 0), ("10", 10), ("0.5", Fraction(1, 2)), ("2147483647", 2147483647), ("2.5", Fraction(5, 2))],
)
def test_a_cost_is_a_number(token: str, value: Fraction) -> None:
    assert cost_line(("a/x0", 1), (token, 2), [("b/y0", 3)]).cost == value


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("-1", "cannot be negative"),
        ("x", "expected a cost"),
        ("", "expected a cost"),
        ("1e9", "expected a cost"),
        ("٣", "expected a cost"),
        ("2147483648", "at most"),
        ("9" * 5000, "at most"),
        ("010", "octal number; write the cost without leading zeros"),
        ("00", "without leading zeros"),
        ("0.1234567", "decimals"),
        ("1.", "decimals"),
        ("1.2.3", "expected a cost, a number from 0"),
    ],
)
def test_a_cost_that_cannot_be_used_is_named_with_its_line(token: str, problem: str) -> None:
    with pytest.raises(CostError, match=problem) as caught:
        cost_line(("a/x0", 3), (token, 4), [("b/y0", 5)])
    assert str(caught.value).startswith("line 4: ")
    assert len(str(caught.value)) < 300


def test_a_line_holds_every_member_of_its_ranges_once() -> None:
    line = cost_line(("a/x0-1", 1), ("10", 2), [("b/y0-1", 3), ("b/y1", 4)])
    assert line == CostLine(("a/x0", "a/x1"), 10, ("b/y0", "b/y1"), 2)


def test_a_cost_without_targets_is_an_error() -> None:
    with pytest.raises(CostError, match="line 2: 20: no targets"):
        cost_line(("a/x0", 1), ("20", 2), [])


def test_a_name_in_a_set_of_names_stands_there_once() -> None:
    assert unique_names([("a/x0-1", 1), ("a/x3", 2)]) == ("a/x0", "a/x1", "a/x3")
    with pytest.raises(CostError, match="line 9: a/x1-2: a/x1 is already named on line 8"):
        unique_names([("a/x0-1", 8), ("a/x1-2", 9)])


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("a/x:\n  - 20\n    - b/y\n", "a/x:\n  - 20:\n    - b/y\n"),
        ("a/x:\n  - 20  # far\n\n    # these\n    - b/y\n", "a/x:\n  - 20:  # far\n\n    # these\n    - b/y\n"),
        ("a/x:\n  20\n    - b/y\n", "a/x:\n  20:\n    - b/y\n"),
        ("a/x:\n  20\n  - b/y\n", "a/x:\n  20:\n  - b/y\n"),
        ("a/x:\r\n  - 20\r\n    - b/y\r\n", "a/x:\r\n  - 20:\n    - b/y\r\n"),
    ],
)
def test_a_missing_colon_is_put_in(text: str, repaired: str) -> None:
    assert with_colons(text) == repaired


@pytest.mark.parametrize("text", ["a/x:\n  - 20:\n    - b/y\n", "- 1\n- 2\n", "a: 20\nb:\n- x\n", "20\n", ""])
def test_a_text_that_lacks_no_colon_stays(text: str) -> None:
    assert with_colons(text) == text


def test_neighbours_are_written_as_ranges() -> None:
    assert ranges_of(["a/x10", "a/x9", "a/x1", "b/z", "a/x11"]) == ["a/x1", "a/x9-11", "b/z"]
    assert ranges_of(["a/x08", "a/x09", "a/x10"]) == ["a/x08", "a/x09", "a/x10"]


def test_a_listing_is_written_source_by_source() -> None:
    lines = (CostLine(("a/x0", "a/x1"), 10, ("b/y0",)), CostLine(("a/x0", "a/x1"), Fraction(5, 2), ("b/y1", "b/y2")))
    assert cost_text(CostListing(lines)) == "a/x0-1:\n  - 10:\n    - b/y0\n  - 2.5:\n    - b/y1-2\n"


@pytest.mark.parametrize("name", ["a/b-1", "a/b 1", "gpu/GPU-1234-5678"])
def test_a_name_that_would_be_read_as_another_is_not_written(name: str) -> None:
    with pytest.raises(CostError):
        cost_text(CostListing((CostLine((name,), 1, ("b/y",)),)))


def test_instances_that_no_line_has_are_sources_without_costs() -> None:
    listing = CostListing((CostLine(("a/x0",), 5, ("b/y0",)),), ("a/x0", "b/y0", "b/y1", "b/y2"))
    assert cost_text(listing) == "a/x0:\n  - 5:\n    - b/y0\nb/y1-2:\n"


def test_a_number_above_another_source_is_no_cost_of_a_list() -> None:
    assert with_colons("foo/0:\n- 20\nbar/0:\n") == "foo/0:\n- 20\nbar/0:\n"


@pytest.mark.parametrize(("length", "shown"), [(80, "'" + "9" * 80 + "'"), (81, "'" + "9" * 77 + "...'")])
def test_a_text_that_is_refused_is_shown_up_to_80_characters(length: int, shown: str) -> None:
    with pytest.raises(CostError, match="at most") as refused:
        cost_line(("a/x0", 1), ("9" * length, 1), [("b/y0", 1)])
    assert shown in str(refused.value)
