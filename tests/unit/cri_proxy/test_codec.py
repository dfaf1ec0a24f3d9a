import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.codec import CodecError, decode, encode
from policies.base import ContainerKey, CpuKind, Grant, Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import grants, make_row


@dataclass(frozen=True)
class Mixed:
    """What no grant holds but a view does: a union of scalars, and a pair."""

    key: tuple[tuple[str, int | float | str], ...]
    ratio: float = 0.5


@given(grants(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_grant_survives_json(grant: Grant, sparse: bool) -> None:
    assert decode(Grant, json.loads(json.dumps(encode(grant, sparse=sparse)))) == grant


def test_sets_read_as_the_kernel_writes_them() -> None:
    assert encode(Pinning(CpuSet.parse("0-3,8"), NodeSet.of([1]))) == {"cpus": "0-3,8", "mems": "1"}


def test_sparse_leaves_out_defaults() -> None:
    plain = encode(make_row().grant, sparse=True)
    assert isinstance(plain, dict)
    assert sorted(plain) == ["exclusive", "kind", "mems", "pool", "request"]


def test_unions_of_scalars_keep_their_type() -> None:
    value = Mixed((("depth", 3), ("cost", 1.5), ("name", "x")))
    assert decode(Mixed, encode(value)) == value


def test_an_integer_is_a_float_where_one_is_wanted() -> None:
    assert decode(Mixed, {"key": [], "ratio": 1}) == Mixed((), 1.0)


def test_unknown_keys_are_skipped() -> None:
    assert decode(ContainerKey, {"pod_uid": "u", "name": "c", "colour": "red"}) == ContainerKey("u", "c")


@pytest.mark.parametrize(
    ("plain", "where", "problem"),
    [
        ({"pod_uid": "u"}, "name", "is missing"),
        ({"pod_uid": 1, "name": "c"}, "pod_uid", "expected str, got int"),
        ({"pod_uid": "u", "name": None}, "name", "expected str, got NoneType"),
        ([], "", "expected a mapping for ContainerKey, got list"),
    ],
)
def test_damage_is_named(plain: object, where: str, problem: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(ContainerKey, plain)
    assert (caught.value.where, caught.value.problem) == (where, problem)


@pytest.mark.parametrize("cpus", ["0-", "x", 3, True])
def test_garbage_is_never_an_empty_set(cpus: object) -> None:
    with pytest.raises(CodecError, match="cpus"):
        decode(Pinning, {"cpus": cpus, "mems": None})


def test_damage_deep_inside_is_named_by_its_path() -> None:
    request = {**nested(encode_grant()["request"]), "labels": [["a", "b"], ["c", 1]]}
    with pytest.raises(CodecError) as caught:
        decode(Grant, {**encode_grant(), "request": request})
    assert str(caught.value) == "request.labels[1][1]: expected str, got int"


def test_a_boolean_is_not_a_number() -> None:
    with pytest.raises(CodecError, match="shared_mcpu"):
        decode(Grant, {**encode_grant(), "shared_mcpu": True})


def test_an_unknown_enum_value_is_damage() -> None:
    with pytest.raises(CodecError, match="kind"):
        decode(Grant, {**encode_grant(), "kind": "borrowed"})


def test_a_value_without_plain_form_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(object())


def encode_grant() -> dict[str, object]:
    plain = encode(make_row().grant)
    assert isinstance(plain, dict)
    assert plain["kind"] == CpuKind.EXCLUSIVE.value
    return {**plain}


def nested(plain: object) -> dict[str, object]:
    assert isinstance(plain, dict)
    return {**plain}
