from dataclasses import dataclass, field

import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.documents.forms import TEXT, TRUTH, each, scalar, whole
from sysfs.documents.table import KeyRow, Table

DIALECT = Dialect(max_bytes=1000, max_depth=9, max_nodes=99)


@dataclass(frozen=True, slots=True)
class Place:
    node: int = -1


@dataclass(frozen=True, slots=True)
class Disk:
    name: str
    is_good: bool = True
    place: Place = field(default_factory=Place)
    parts: tuple[int, ...] = (7,)


ROWS = (
    KeyRow("name", TEXT, "", "name is missing; give one", also=("id", "title")),
    KeyRow("good", TRUTH, field="is_good"),
    KeyRow("node", scalar(whole), field="place.node", unwritten=-1),
    KeyRow("parts", each(scalar(whole)), takes_null=True),
)
DISK = Table(lambda node=-1, **more: Disk(place=Place(node), **more), *ROWS, ignored=("colour",))


def field_of(text: str) -> YamlField:
    (root,) = YamlField.documents(text, "f", DIALECT)
    return root


def problem(text: str, table: Table[Disk] = DISK) -> str:
    with pytest.raises(DocumentError) as caught:
        table.read(field_of(text), "disk")
    return caught.value.problem


def test_values_come_from_their_rows_and_defaults_from_the_class() -> None:
    assert DISK.read(field_of("{name: a, node: 3, parts: [1, 2], colour: red}")) == Disk("a", True, Place(3), (1, 2))


def test_null_is_as_good_as_absent_where_a_row_does_not_take_it() -> None:
    assert DISK.read(field_of("{name: a, good: null, parts: null}")) == Disk("a", parts=())


def test_a_key_beats_its_other_names() -> None:
    assert DISK.read(field_of("{id: other, name: own, title: other}")).name == "own"
    assert DISK.read(field_of("{title: other}")).name == "other"


def test_what_stands_beside_a_mapping_counts_as_if_it_stood_there() -> None:
    fields = DISK.fields(field_of("{name: a}"), beside=field_of("{node: 2, anything: 1}").entries("it"))
    assert DISK.made(fields) == Disk("a", place=Place(2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{name: a, nodes: 1}", "disk: unknown key 'nodes'; did you mean node?"),
        ("{good: true}", "disk: name is missing; give one"),
        ("{name: null}", "disk: name is missing; give one"),
        ("{name: a, node: x}", "disk.node: expected a whole number from 0, got 'x'"),
        ("{name: a, parts: [1, x]}", "disk.parts: expected a whole number from 0, got 'x'"),
        ("[]", "disk: expected a mapping, got a list"),
    ],
)
def test_an_error_names_the_key_and_the_remedy(text: str, said: str) -> None:
    assert problem(text) == said


def test_a_table_with_a_name_names_itself_and_its_keys_alone() -> None:
    named = Table(Disk, *ROWS[:2], name="a disk")
    assert problem("{}", named) == "a disk: name is missing; give one"
    assert problem("{name: a, good: x}", named) == "good: expected true or false, got 'x'"


def test_any_other_key_may_stand_where_none_is_known() -> None:
    assert Table(Disk, *ROWS[:1], ignored=None).read(field_of("{name: a, x: 1, y: []}")) == Disk("a")


def test_what_is_written_is_read_again() -> None:
    for disk in (Disk("a"), Disk("b", False, Place(4), (1,))):
        assert DISK.read(field_of(str(DISK.write(disk)).replace("True", "true").replace("False", "false"))) == disk
    assert DISK.write(Disk("a")) == {"name": "a", "good": True, "parts": [7]}


def test_a_key_is_named_once_where_it_has_a_row_and_is_ignored_too() -> None:
    assert Table(Disk, ROWS[0], ignored=("name", "colour")).keys == dict.fromkeys(("id", "title", "name", "colour"))
