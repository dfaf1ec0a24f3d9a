import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_list import MAX_ID_CHARACTERS, is_usable_id, read_items


def listed(*names: str) -> bytes:
    containers = [pb.Container(id=name, pod_sandbox_id="s", annotations={"k": f"of {name}"}) for name in names]
    return pb.ListContainersResponse(containers=containers).SerializeToString()


def ids(reply: bytes) -> tuple[list[str], int]:
    items = read_items(pb.ListContainersResponse, pb.Container, reply, lambda container: container.id)
    return list(items.readable), items.unreadable


def test_a_list_that_can_be_read_is_read() -> None:
    assert ids(listed("a", "b")) == (["a", "b"], 0)


def test_of_an_item_with_a_damaged_annotation_the_rest_is_read() -> None:
    def take(container: pb.Container) -> tuple[str, str, dict[str, str]]:
        return container.id, container.pod_sandbox_id, dict(container.annotations)

    reply = listed("a", "b").replace(b"of a", b"of \xff")
    items = read_items(pb.ListContainersResponse, pb.Container, reply, take)
    assert items.readable == (("a", "s", {}), ("b", "s", {"k": "of b"}))
    assert items.unreadable == 0


@pytest.mark.parametrize("name", ["", "x y", "x\ny", "\u202ex", "x" * (MAX_ID_CHARACTERS + 1)])
def test_an_item_without_a_usable_id_is_counted_and_hides_no_other(name: str) -> None:
    assert ids(listed("a", name, "b")) == (["a", "b"], 1)


def test_an_id_that_is_no_text_is_counted() -> None:
    assert ids(listed("a", "zz", "b").replace(b"\x0a\x02zz", b"\x0a\x02\xff\xfe")) == (["a", "b"], 1)


@pytest.mark.parametrize("reply", [b"\xff", b"\x0a\x05abc", b"\x03", b"\x00\x00", listed("a")[:-3]])
def test_what_is_no_list_at_all_is_an_error(reply: bytes) -> None:
    with pytest.raises(DecodeError):
        ids(reply)


def test_a_list_that_is_read_in_parts_is_whole() -> None:
    names = [f"c{i}" for i in range(2000)]
    assert ids(listed(*names)) == (names, 0)
    assert ids(listed(*names).replace(b"of c999", b"of \xff999")) == (names, 0)


@given(st.binary(max_size=64))
def test_any_bytes_give_items_or_that_error(reply: bytes) -> None:
    try:
        found, _ = ids(reply)
    except DecodeError:
        return
    assert all(map(is_usable_id, found))


@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=2, max_size=6, unique=True), st.data())
def test_a_damaged_item_never_hides_the_others(names: list[str], data: st.DataObject) -> None:
    broken = data.draw(st.sampled_from(names))
    replies = [listed(name) for name in names]
    place = names.index(broken)
    head = len(replies[place]) - len(broken) - 9  # inside of it
    garbage = data.draw(st.binary(min_size=4, max_size=4))
    replies[place] = replies[place][:head] + garbage + replies[place][head + 4 :]
    try:
        found, unreadable = ids(b"".join(replies))
    except DecodeError:
        return  # the length of the item itself was hit
    assert set(names) - {broken} <= set(found)
    assert len(found) + unreadable >= len(names)
