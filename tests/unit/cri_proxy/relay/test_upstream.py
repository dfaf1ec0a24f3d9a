"""Windows towards the runtime: client and runtime are always owed the truth.

Whatever happens: the runtime's window is never overrun, and it equals the client's, plus what waits, less our debt.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import FrameCutter
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
    upstream = Upstream(opened([]), [])
    assert pass_data(upstream, 1, 65_535)
    assert not pass_data(upstream, 1, 1)


def test_a_frame_larger_than_what_is_left_is_split() -> None:
    upstream = Upstream(opened([]), [], window_bytes=100)
    assert not pass_data(upstream, 1, 150, end=True)
    assert [len(payload) for _, _, _, payload in parse(upstream.to_runtime)] == [100]
    upstream.connection_credit(80)
    assert [(flags, len(payload)) for _, flags, _, payload in parse(upstream.to_runtime)] == [(0, 100), (1, 50)]


def test_an_empty_last_frame_needs_no_window() -> None:
    assert pass_data(Upstream(opened([]), [], window_bytes=0), 1, 0, end=True)


def test_waiting_data_keeps_its_order_across_streams() -> None:
    upstream = Upstream(opened([]), [], window_bytes=0)
    for stream, size in ((1, 10), (3, 5), (1, 1)):
        assert not pass_data(upstream, stream, size)
    upstream.connection_credit(100)
    assert [(stream, len(payload)) for _, _, stream, payload in parse(upstream.to_runtime)] == [(1, 10), (3, 5), (1, 1)]


def test_waiting_data_of_a_reset_stream_is_dropped_and_credited() -> None:
    to_client: Parts = []
    upstream = Upstream(opened(to_client), [], window_bytes=0)
    pass_data(upstream, 1, 10)
    upstream.drop_waiting(1)
    upstream.connection_credit(100)
    assert (upstream.to_runtime, credit(to_client, 0), upstream.has_waiting(1)) == ([], 10, False)


def test_padding_that_is_not_sent_is_credited() -> None:
    to_client: Parts = []
    upstream = Upstream(opened(to_client), [], window_bytes=5)
    buffer = frames.frame(frames.DATA, frames.PADDED, 1, b"\x04abcd....")
    assert not upstream.pass_data(buffer, (frames.DATA, frames.PADDED, 1, 0, len(buffer)))
    assert (credit(to_client, 0), credit(to_client, 1)) == (5, 5)
    assert body(upstream.to_runtime, 1) == b"abcd"


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
        self.upstream = Upstream(opened(self.to_client), self.to_runtime)
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

    @rule(stream=st.sampled_from([2001, 2003]))
    def reset(self, stream: int) -> None:
        self.upstream.drop_waiting(stream)
        self.settle()

    @invariant()
    def both_ends_know_the_truth(self) -> None:
        waiting = sum(len(entry.body) for entry in self.upstream.waiting)
        assert self.upstream.window_bytes == self.ends.runtime_bytes
        assert self.ends.runtime_bytes == self.ends.client_bytes + waiting - self.upstream.debt_bytes


TestWindows = WindowMachine.TestCase
TestWindows.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
