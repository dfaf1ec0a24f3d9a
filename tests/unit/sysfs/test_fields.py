import pytest

from sysfs.errors import MachineSourceError
from sysfs.fields import Fields


def fields(**values: object) -> Fields:
    return Fields(values, ("number", "word", "cpus", "amount", "items", "nodes"))


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    with pytest.raises(MachineSourceError, match="nmber: unknown key; did you mean number\\?"):
        fields(nmber=1)
    with pytest.raises(MachineSourceError, match="zzz: unknown key; known: number, word"):
        fields(zzz=1)


@pytest.mark.parametrize("value", [0, 11, True, "3", 2.0, [1]])
def test_numbers_are_whole_and_in_bounds(value: object) -> None:
    with pytest.raises(MachineSourceError, match=r"number: .* whole number from 1 to 10"):
        fields(number=value).integer("number", 1, 1, 10)


def test_what_is_not_given_has_its_default() -> None:
    empty = fields()
    assert (empty.integer("number", 7, 1, 10), empty.word("word", "x"), empty.items("items")) == (7, "x", [])
    assert "number" not in empty
    assert "number" not in fields(number=None)


@pytest.mark.parametrize(("value", "cpus"), [("0-3,8", "0-3,8"), (5, "5"), ([1, "3-4"], "1,3-4"), ("", ""), ([], "")])
def test_cpu_lists_come_as_text_number_or_list(value: object, cpus: str) -> None:
    assert str(fields(cpus=value).cpus("cpus", 16)) == cpus


@pytest.mark.parametrize("value", ["0-", "16", 16, -1, True, 1.5, [[1]], {"a": 1}, None])
def test_other_cpu_lists_are_refused_with_the_bounds(value: object) -> None:
    with pytest.raises(MachineSourceError, match=r"cpus: .*CPUs 0 to 15"):
        fields(cpus=value).cpus("cpus", 16)


@pytest.mark.parametrize("value", ["2G1", "-1", True, 1.5, None, "1e30"])
def test_quantities_that_do_not_do_are_refused(value: object) -> None:
    with pytest.raises(MachineSourceError, match="amount"):
        fields(amount=value).quantity("amount", value)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(MachineSourceError) as caught:
        fields(word="x" * 999).word("word", "", ("a", "b"))
    assert len(str(caught.value)) < 200
    assert "give one of a, b" in str(caught.value)


def test_mappings_in_a_list_are_named_by_their_place() -> None:
    with pytest.raises(MachineSourceError, match=r"items\[1\]\.b: unknown key"):
        fields(items=[{"a": 1}, {"b": 1}]).mappings("items", ("a",))
    with pytest.raises(MachineSourceError, match="give a list of mappings"):
        fields(items=[1]).mappings("items", ("a",))
    with pytest.raises(MachineSourceError, match="give a list"):
        fields(items="x").items("items")
