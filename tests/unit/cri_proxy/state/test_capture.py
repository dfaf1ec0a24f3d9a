import pytest

from cri_proxy.codec import encode
from cri_proxy.state.capture import read_state, state_json, without_nulls
from tests.fakes.grants import row
from tests.fakes.rows import make_sandbox

ROW = row("web", owned="1-2", acknowledged="1-2")
OPTIONS = {"policy": "topology-aware", "kubeletRoot": None, "topologyAware": {"PinCPU": True, "PinMemory": None}}


def plain(*rows: object) -> dict[str, object]:
    return state_json(OPTIONS, [make_sandbox()]) | {"rows": [encode(each, sparse=True) for each in rows]}


def test_what_is_written_is_read_back_without_what_is_not_set() -> None:
    options, saved = read_state(plain(ROW))
    assert options == {"policy": "topology-aware", "topologyAware": {"PinCPU": True}} == without_nulls(OPTIONS)
    assert (saved.rows, saved.sandboxes) == ((ROW,), (make_sandbox(),))


def test_only_what_stands_is_read() -> None:
    assert read_state(plain(row("gone", state="exited"), row("asked", state="reserved")))[1].rows == ()


@pytest.mark.parametrize("wrong", [[], {}, {"options": []}, plain() | {"rows": [{}]}, plain() | {"rows": 3}])
def test_anything_else_is_an_error(wrong: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_state(wrong)
