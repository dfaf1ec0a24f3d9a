import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay.request_quota import ConnectionQuota, RequestQuota

MIB = 1 << 20


def used(quota: RequestQuota) -> tuple[int, int]:
    return quota.calls, quota.held_bytes


def test_a_connection_holds_two_messages_of_the_largest_size_and_no_third() -> None:
    relay = RequestQuota()
    connection = ConnectionQuota(relay)
    assert [connection.take(16 * MIB, calls=1) for _ in range(2)] == ["", ""]
    assert connection.take(16 * MIB, calls=1) == (
        "cri-proxy holds 2 requests of 33554432 bytes; try again when they have ended"
    )
    assert used(relay) == (2, 32 * MIB)
    connection.give_back(16 * MIB)
    assert (connection.take(16 * MIB, calls=1), used(relay)) == ("", (2, 32 * MIB))


def test_connections_share_what_the_relay_may_hold() -> None:
    relay = RequestQuota(max_bytes=40 * MIB)
    one, other = ConnectionQuota(relay), ConnectionQuota(relay)
    assert (one.take(30 * MIB), other.take(10 * MIB)) == ("", "")
    assert other.take(1)
    assert used(relay) == (0, 40 * MIB)


def test_calls_are_bounded_whatever_their_size() -> None:
    connection = ConnectionQuota(RequestQuota())
    accepted = 0
    while not connection.take(0, calls=1):
        accepted += 1
    assert accepted == 2000


def test_a_client_that_goes_on_without_room_is_left_unless_a_call_of_its_own_went_on() -> None:
    connection = ConnectionQuota(RequestQuota(max_bytes=0))
    for _ in range(3):
        for _ in range(1000):
            assert connection.take(1)
        connection.went_on()
    with pytest.raises(ProtocolError, match="without room") as error:
        for _ in range(1001):
            connection.take(1)
    assert error.value.code == frames.ENHANCE_YOUR_CALM


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20) | st.none()), max_size=60))
@settings(deadline=None)
def test_what_all_hold_together_is_within_every_bound_and_ends_at_nothing(steps: list[tuple[int, int | None]]) -> None:
    relay = RequestQuota(max_calls=6, max_bytes=50)
    connections = [ConnectionQuota(relay) for _ in range(3)]
    held: list[list[int]] = [[] for _ in connections]
    for number, size in steps:
        if size is None:
            if held[number]:
                connections[number].give_back(held[number].pop())
        elif not connections[number].take(size, calls=1):
            held[number].append(size)
        assert used(relay) == (sum(map(len, held)), sum(map(sum, held)))
        assert relay.calls <= 6
        assert relay.held_bytes <= 50
