"""Windows towards the runtime: client and runtime are always owed the truth.

Whatever happens: the runtime's window is never overrun, and it equals the client's, plus what waits, less our debt.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import FrameCutter, ProtocolError
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.preface import OwnFrames
from cri_proxy.relay.upstream import Upstream
from tests.fakes.http2 import body, credit, parse


def opened(to_client: Parts) -> OwnFrames:
    """What writes to a client that has the runtime's SETTINGS."""
    own = OwnFrames(to_client)
    own.open()
    return own


def pass_data(upstream: Upstream, stream: int, size: int, *, end: bool = False) -> bool:
    buffer = frames.frame(frames.DATA, frames.END_STREAM if end else 0, stream, bytes(size))
    cutter = FrameCutter()
    cutter.max_frame_bytes = 1 << 20
    ((_, cuts),) = cutter.cut(buffer)
    return upstream.pass_data(buffer, cuts[0])


def test_what_fits_goes_on_as_it_is() -> None:
    upstream = Upstream(opened([]), opened([]))
    assert pass_data(upstream, 1, 65_535)
    upstream.debt_bytes = 1
    assert not pass_data(upstream, 1, 1)


def test_a_frame_larger_than_what_is_left_is_split() -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=100, debt_bytes=50)
    assert not pass_data(upstream, 1, 150, end=True)
    assert [len(payload) for _, _, _, payload in parse(to_runtime)] == [100]
    upstream.connection_credit(80)
    assert [(flags, len(payload)) for _, flags, _, payload in parse(to_runtime)] == [(0, 100), (1, 50)]


def test_an_empty_last_frame_needs_no_window() -> None:
    assert pass_data(Upstream(opened([]), opened([]), window_bytes=0), 1, 0, end=True)


def test_waiting_data_keeps_its_order_in_each_stream_and_the_first_to_wait_goes_first() -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=0, debt_bytes=100)
    for stream, size in ((1, 10), (3, 5), (1, 1)):
        assert not pass_data(upstream, stream, size)
    upstream.connection_credit(100)
    assert [(stream, len(payload)) for _, _, stream, payload in parse(to_runtime)] == [(1, 11), (3, 5)]


def test_waiting_data_of_a_reset_stream_is_dropped_and_credited() -> None:
    to_runtime: Parts = []
    to_client: Parts = []
    upstream = Upstream(opened(to_client), opened(to_runtime), window_bytes=0, debt_bytes=10)
    pass_data(upstream, 1, 10)
    upstream.drop_waiting(1)
    assert (credit(to_client, 0), credit(to_client, 1), 1 in upstream.waiting) == (10, 0, False)
    upstream.connection_credit(100)
    assert to_runtime == []


def test_what_waits_costs_its_bytes_and_a_little_for_each_stream_however_small_the_frames() -> None:
    upstream = Upstream(opened([]), opened([]), window_bytes=0, debt_bytes=10_000)
    for number in range(10_000):
        pass_data(upstream, number % 2 * 2 + 1, 1)
        pass_data(upstream, number % 2 * 2 + 1, 0)
    assert (len(upstream.waiting), upstream.waiting_bytes) == (2, 10_000)


def test_data_after_the_end_of_a_stream_that_waits_is_an_error() -> None:
    upstream = Upstream(opened([]), opened([]), window_bytes=0, debt_bytes=10)
    pass_data(upstream, 1, 1, end=True)
    with pytest.raises(ProtocolError, match="after the end"):
        pass_data(upstream, 1, 1)


@pytest.mark.parametrize("debt_bytes", [0, 50])
def test_data_beyond_the_window_is_an_error_to_the_byte(debt_bytes: int) -> None:
    for size, is_held in product((100 + debt_bytes, 101 + debt_bytes), (True, False)):
        upstream = Upstream(opened([]), opened([]), window_bytes=100, debt_bytes=debt_bytes)
        expected = nullcontext() if size == 100 + debt_bytes else pytest.raises(ProtocolError, match="in a window of")
        with expected as error:
            if is_held:
                upstream.credit_client(1, size, end_stream=False)
            else:
                pass_data(upstream, 1, size)
        assert error is None or error.value.code == frames.FLOW_CONTROL_ERROR


def test_padding_that_is_not_sent_is_credited() -> None:
    to_runtime: Parts = []
    to_client: Parts = []
    upstream = Upstream(opened(to_client), opened(to_runtime), window_bytes=5, debt_bytes=5)
    buffer = frames.frame(frames.DATA, frames.PADDED, 1, b"\x04abcd....")
    assert not upstream.pass_data(buffer, (frames.DATA, frames.PADDED, 1, 0, len(buffer)))
    assert (credit(to_client, 0), credit(to_client, 1)) == (5, 5)
    assert body(to_runtime, 1) == b"abcd"


@dataclass(slots=True)
class Ends:
    """What each end knows of the connection's window."""

    client_bytes: int = frames.DEFAULT_WINDOW_BYTES
    runtime_bytes: int = frames.DEFAULT_WINDOW_BYTES
    unread: list[int] = field(default_factory=list)


class WindowMachine(RuleBasedStateMachine):
    """Any order of uploads, held requests, verdicts, credit and resets."""

    def __init__(self) -> None:
        super().__init__()
        self.to_client: Parts = []
        self.to_runtime: Parts = []
        self.upstream = Upstream(opened(self.to_client), opened(self.to_runtime))
        self.ends = Ends()
        self.next_stream = 1

    def settle(self) -> None:
        self.ends.client_bytes += credit(self.to_client, 0)
        for kind, _, _, payload in parse(self.to_runtime):
            if kind == frames.DATA:
                self.arrive(len(payload))
        self.to_client.clear()
        self.to_runtime.clear()

    def arrive(self, size: int) -> None:
        self.ends.runtime_bytes -= size
        self.ends.unread.append(size)
        assert self.ends.runtime_bytes >= 0, "the runtime's window is overrun"

    @rule(share=st.floats(0, 1), stream=st.sampled_from([2001, 2003]))
    def upload(self, share: float, stream: int) -> None:
        size = min(int(self.ends.client_bytes * share), 16_384)
        self.ends.client_bytes -= size
        if pass_data(self.upstream, stream, size):
            self.arrive(size)
        self.settle()

    @rule(beyond=st.integers(1, 100_000), stream=st.sampled_from([2001, 2003]))
    def overrun(self, beyond: int, stream: int) -> None:
        """The rules above are all that a correct client does: none may raise, and this must, from the first byte."""
        with pytest.raises(ProtocolError, match="in a window of"):
            pass_data(self.upstream, stream, self.ends.client_bytes + self.upstream.kept_bytes + beyond)

    @rule(share=st.floats(0, 1), grown=st.integers(0, 90_000))
    def hold_and_send(self, share: float, grown: int) -> None:
        size = min(int(self.ends.client_bytes * share), 16_384)
        self.ends.client_bytes -= size
        self.upstream.credit_client(self.next_stream, size, end_stream=True)
        outgoing = self.upstream.open(self.next_stream)
        self.next_stream += 2
        outgoing.body, outgoing.ready = bytes(size + grown), True
        self.upstream.send()
        self.settle()

    @precondition(lambda self: self.ends.unread)
    @rule(data=st.data())
    def runtime_reads(self, data: st.DataObject) -> None:
        size = self.ends.unread.pop(data.draw(st.integers(0, len(self.ends.unread) - 1)))
        if size:
            self.ends.runtime_bytes += size
            if self.upstream.connection_credit(size):
                self.ends.client_bytes += size
            self.settle()

    @rule()
    def give(self) -> None:
        self.upstream.give()
        self.settle()

    @rule(stream=st.sampled_from([2001, 2003]))
    def reset(self, stream: int) -> None:
        self.upstream.drop_waiting(stream)
        self.settle()

    @invariant()
    def both_ends_know_the_truth(self) -> None:
        waiting = sum(len(entry.body) for entry in self.upstream.waiting.values())
        assert self.upstream.waiting_bytes == waiting <= self.upstream.window_bytes + self.upstream.debt_bytes
        assert self.upstream.window_bytes == self.ends.runtime_bytes
        client_bytes = self.ends.client_bytes + self.upstream.kept_bytes
        assert self.ends.runtime_bytes == client_bytes + waiting - self.upstream.debt_bytes

    @invariant()
    def what_is_kept_is_no_more_than_a_client_can_wait_for(self) -> None:
        """Half of the first window is left to it, or it has all."""
        self.upstream.give_needed()
        self.settle()
        assert self.upstream.kept_bytes <= 16_384
        assert self.upstream.kept_bytes == 0 or self.ends.client_bytes >= frames.DEFAULT_WINDOW_BYTES // 2


TestWindows = WindowMachine.TestCase
TestWindows.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_an_empty_last_frame_waits_behind_its_stream_and_needs_no_window_then() -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=0, debt_bytes=10)
    assert not pass_data(upstream, 3, 10)
    assert not pass_data(upstream, 3, 0, end=True)
    assert not pass_data(upstream, 5, 0, end=True)
    assert to_runtime == []
    upstream.connection_credit(10)
    ended = [(stream, flags, len(payload)) for _, flags, stream, payload in parse(to_runtime)]
    assert ended == [(3, frames.END_STREAM, 10), (5, frames.END_STREAM, 0)]


def test_a_credit_that_pays_the_debt_and_no_more_says_nothing_to_the_client() -> None:
    """A credit of 0 would be an error (RFC 9113, 6.9)."""
    to_client: Parts = []
    upstream = Upstream(opened(to_client), opened([]), debt_bytes=10)
    assert not upstream.connection_credit(10)
    assert (to_client, upstream.debt_bytes, upstream.kept_bytes) == ([], 0, 0)


def test_a_closed_stream_is_owed_nothing() -> None:
    upstream = Upstream(opened([]), opened([]))
    upstream.open(1)
    assert upstream.owes
    upstream.close(1)
    assert not upstream.owes


def test_a_window_of_one_byte_is_used() -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=0, debt_bytes=10)
    pass_data(upstream, 3, 2)
    upstream.connection_credit(1)
    assert len(body(to_runtime, 3)) == 1


@pytest.mark.parametrize(
    ("window", "stream_window", "sizes"),
    [(0, 5, []), (5, 0, []), (5, -3, []), (-3, 5, []), (1, 5, [1]), (5, 1, [1]), (20, 20, [10])],
)
def test_a_held_body_is_sent_once_and_within_both_windows(window: int, stream_window: int, sizes: list[int]) -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=window)
    outgoing = upstream.open(1)
    outgoing.window_bytes, outgoing.body, outgoing.ready = stream_window, b"x" * 10, True
    for _ in range(2):
        upstream.send()
    assert [len(payload) for _, _, _, payload in parse(to_runtime)] == sizes


@pytest.mark.parametrize("end", [False, True])
def test_what_waited_ends_its_stream_only_if_its_client_has(end: bool) -> None:
    to_runtime: Parts = []
    upstream = Upstream(opened([]), opened(to_runtime), window_bytes=0, debt_bytes=10)
    pass_data(upstream, 3, 10, end=end)
    upstream.connection_credit(20)
    assert [(flags, len(payload)) for _, flags, _, payload in parse(to_runtime)] == [(int(end), 10)]


HALF = frames.DEFAULT_WINDOW_BYTES // 2


def test_no_more_than_16_kib_of_credit_is_kept() -> None:
    to_client: Parts = []
    upstream = Upstream(opened(to_client), opened([]))
    assert [upstream.keep(size) for size in (16_383, 2, 1, 1)] == [True, False, True, False]
    upstream.give()
    assert (credit(to_client, 0), upstream.kept_bytes) == (16_384, 0)


def test_half_of_its_first_window_is_left_to_a_client_for_which_credit_is_kept() -> None:
    to_client: Parts = []
    upstream = Upstream(opened(to_client), opened([]), window_bytes=HALF + 20)
    assert [upstream.keep(size) for size in (15, 6, 5, 1)] == [True, False, True, False]
    upstream.give_needed()
    assert to_client == []
    assert pass_data(upstream, 1, 1)
    upstream.give_needed()
    assert credit(to_client, 0) == 20


def test_the_window_of_a_client_is_the_runtimes_with_the_debt_less_what_waits() -> None:
    upstream = Upstream(opened([]), opened([]), window_bytes=HALF - 10, debt_bytes=30, waiting_bytes=5)
    assert [upstream.keep(size) for size in (16, 15, 1)] == [False, True, False]


@pytest.mark.parametrize("flags", [0, 0x2])
def test_a_ping_is_answered_whatever_else_its_flags_say(flags: int) -> None:
    """Flags that a type does not have say nothing (RFC 9113, 4.1)."""
    to_runtime: Parts = []
    asking = frames.frame(frames.PING, flags, 0, b"12345678")
    assert not Upstream(opened([]), opened(to_runtime)).ping(asking, (frames.PING, flags, 0, 0, len(asking)))
    assert to_runtime == [frames.frame(frames.PING, frames.ACK, 0, b"12345678")]


@pytest.mark.parametrize(("flags", "stream", "size"), [(frames.ACK, 0, 8), (0, 7, 8), (0, 0, 7), (0, 0, 9)])
def test_a_ping_that_asks_nothing_or_breaks_the_rules_goes_on(flags: int, stream: int, size: int) -> None:
    to_runtime: Parts = []
    frame = frames.frame(frames.PING, flags, stream, bytes(size))
    assert Upstream(opened([]), opened(to_runtime)).ping(frame, (frames.PING, flags, stream, 0, len(frame)))
    assert to_runtime == []
