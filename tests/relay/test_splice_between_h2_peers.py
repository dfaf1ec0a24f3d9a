"""The splice between two strict HTTP/2 peers (python-h2), which raise at the first frame that breaks the rules.

Calls, credit, verdicts, settings and resets come in random order, bytes in random chunks, windows are small: whatever
the order, neither peer may complain, and at the end every call has come to what it should.
"""

import random
from contextlib import suppress
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.message import pack
from cri_proxy.relay.calls import Aborted, Interest, Outcome, Replied
from cri_proxy.relay.held_call import Held, HeldCallEnded
from cri_proxy.relay.splice import Splice
from tests.relay.h2_client import Shape, greet

INTERESTS = {"/s/Hold": Interest.HOLD, "/s/Refuse": Interest.HOLD, "/old/Any": Interest.REFUSE}
HEAD_BYTES = len(frames.PREFACE) + frames.HEADER_BYTES
METHODS = ("/s/Pass", "/s/Hold", "/s/Refuse", "/old/Any")


def rewritten(message: bytes) -> bytes:
    """What our side makes of a request: sometimes shorter, sometimes far longer."""
    return message * (len(message) % 4) + b"!"


@dataclass(slots=True)
class Call:
    """One call, as its client sees it and as the runtime saw its request."""

    method: str
    message: bytes
    unsent: bytes
    asked: list[tuple[bytes, bytes]]
    told: list[tuple[bytes, bytes]] = field(default_factory=list)
    heard: list[tuple[bytes, bytes]] = field(default_factory=list)
    reset: bool = False
    status: bytes | None = None
    got: bytearray = field(default_factory=bytearray)
    seen: bytearray = field(default_factory=bytearray)
    seen_end: bool = False
    known: bool = False  # to the runtime
    begun: bool = False  # the reply
    answered: bool = False
    unanswered: bytes = b""
    outcome: Outcome | None = None


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.runtime = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.splice = Splice(lambda method: INTERESTS.get(method, Interest.PASS))
        self.calls: dict[int, Call] = {}
        self.held: list[Held] = []
        self.owed: list[tuple[h2.connection.H2Connection, int, int]] = []
        self.pipes = [bytearray() for _ in range(4)]
        self.pings: dict[str, list[bytes]] = {"answered": [], "sent": []}
        greet(self.client, self.shape(), {SettingCodes.ENABLE_PUSH: 0})
        greet(self.runtime, self.shape(), {})
        self.greeted = 0  # peers whose settings the other has acknowledged
        self.heads = [b"", b""]  # the first bytes that runtime and client see
        for _ in range(self.random.choice([0, 3, 200])):  # 200 are enough for all greetings
            self.carry()

    def shape(self) -> Shape:
        """Windows, frames and compression tables of any size."""
        return Shape(
            self.random.choice([1000, 65_535, 2**31 - 1]),
            self.random.choice([16_384, 60_000]),
            self.random.choice([0, 100, 4096, 65_536]),
        )

    def fields(self, name: bytes) -> list[tuple[bytes, bytes]]:
        """Metadata that the compression tables know already, or not, or that drives out what they know."""
        count = self.random.choices([0, 1, 2, 60], weights=[5, 5, 5, 1])[0]  # 60 take a CONTINUATION frame
        values = [b"same", b"%d" % self.random.randrange(9), b"x" * 300]
        return [
            (name + b"%d" % self.random.randrange(4), self.random.choice(values[count > 2 and 2 :]))
            for _ in range(count)
        ]

    def step(self) -> None:
        """One random thing happens."""
        acts = [self.start_call, self.send_request, self.answer, self.credit, self.decide]
        rare = [self.resize, self.cancel, self.begin_early, self.ping]
        self.random.choices([self.carry, *acts, *rare], weights=[12, 3, 4, 4, 4, 3, 0.3, 0.4, 1, 0.3])[0]()

    def finish(self) -> None:
        """Everything that can still happen, happens."""
        idle = 0
        while idle < 5:
            before = self.progress()
            for _ in range(len(self.calls)):
                self.send_request()
                self.answer()
            for act in (self.credit, self.decide):
                for _ in range(len(self.owed) + len(self.held)):
                    act()
            for _ in range(10):
                self.carry()
            idle = idle + 1 if before == self.progress() else 0

    def progress(self) -> list[tuple[int, int, int, bool]]:
        return [(len(call.unsent), len(call.seen), len(call.got), call.status is None) for call in self.calls.values()]

    # What happens

    def carry(self) -> None:
        """Some bytes move on, in some chunk."""
        client_out, to_runtime, runtime_out, to_client = self.pipes
        client_out += self.client.data_to_send()
        runtime_out += self.runtime.data_to_send()
        self.splice.receive_from_client(self.chunk(client_out))
        self.splice.receive_from_runtime(self.chunk(runtime_out))
        outputs = [b"".join(self.splice.to_runtime), b"".join(self.splice.to_client)]
        to_runtime += outputs[0]
        to_client += outputs[1]
        self.heads = [(head + data)[:HEAD_BYTES] for head, data in zip(self.heads, outputs, strict=True)]
        self.splice.to_runtime.clear()
        self.splice.to_client.clear()
        for event in self.splice.events:
            if isinstance(event, Held):
                assert event.message == self.calls[event.stream].message
                self.held.append(event)
            elif isinstance(event, HeldCallEnded):
                self.end(event)
        self.splice.events.clear()
        for seen in self.runtime.receive_data(self.chunk(to_runtime)):
            self.on_runtime(seen)
        for seen in self.client.receive_data(self.chunk(to_client)):
            self.on_client(seen)

    def end(self, event: HeldCallEnded) -> None:
        assert self.calls[event.stream].outcome is None
        self.calls[event.stream].outcome = event.outcome

    def chunk(self, pipe: bytearray) -> bytes:
        size = self.random.choice([1, 9, 100, 5000, 100_000])
        part = bytes(pipe[:size])
        del pipe[:size]
        return part

    def start_call(self) -> None:
        method = self.random.choice(METHODS)
        message = self.random.randbytes(self.random.choice([0, 1, 50, 3000, 30_000, 70_000]))
        stream = self.client.get_next_available_stream_id()
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"x")]
        metadata = [(b"grpc-timeout", b"%dm" % self.random.randrange(9999)), *self.fields(b"ask")]
        self.client.send_headers(stream, [*fields, *metadata])
        self.calls[stream] = Call(method, message, pack(message), metadata)

    def send_request(self) -> None:
        waiting = [
            stream for stream, call in self.calls.items() if call.unsent and not call.reset and call.status is None
        ]
        if not waiting:
            return
        stream = self.random.choice(waiting)
        call = self.calls[stream]
        pad = self.random.choice([None, None, 0, 7])
        room = min(self.client.local_flow_control_window(stream), self.client.max_outbound_frame_size)
        size = min(room - (0 if pad is None else pad + 1), len(call.unsent))
        if size > 0:
            size = self.random.choice([size, self.random.randint(1, size)])
            part, call.unsent = call.unsent[:size], call.unsent[size:]
            self.client.send_data(stream, part, end_stream=not call.unsent, pad_length=pad)

    def answer(self) -> None:
        """The runtime echoes complete requests, as its windows allow."""
        for stream, call in self.calls.items():
            if call.seen_end and not call.answered:
                self.begin(stream, call)
                call.unanswered = call.unanswered or bytes(call.seen)
                size = min(self.runtime.local_flow_control_window(stream), 16_384, len(call.unanswered))
                if size > 0:
                    self.runtime.send_data(stream, call.unanswered[:size])
                    call.unanswered = call.unanswered[size:]
                if not call.unanswered:
                    more = self.fields(b"tell")
                    call.told += more
                    self.runtime.send_headers(stream, [(b"grpc-status", b"0"), *more], end_stream=True)
                    call.answered = True
                return

    def begin(self, stream: int, call: Call) -> None:
        if not call.begun:
            call.told += self.fields(b"tell")
            fields = [(b":status", b"200"), (b"content-type", b"application/grpc"), *call.told]
            self.runtime.send_headers(stream, fields)
            call.begun = True

    def begin_early(self) -> None:
        for stream, call in self.calls.items():
            if call.known and not call.answered and not call.begun:
                self.begin(stream, call)
                return

    def credit(self) -> None:
        """To the byte: python-h2's own way saves credit up, and forgets a window that settings have made negative."""
        if self.owed:
            peer, stream, size = self.owed.pop(self.random.randrange(len(self.owed)))
            if size:
                peer.increment_flow_control_window(size)
                with suppress(h2.exceptions.ProtocolError, KeyError):  # a stream that has ended needs none
                    peer.increment_flow_control_window(size, stream)

    def decide(self) -> None:
        if self.held:
            held = self.held.pop(self.random.randrange(len(self.held)))
            if held.method == "/s/Refuse":
                self.splice.refuse(held.stream, 9, "no")
            else:
                self.splice.resume(held.stream, rewritten(held.message))

    def resize(self) -> None:
        """Either side changes its windows, whatever is under way."""
        if self.greeted < 2:  # h2 takes the first acknowledgement for that of any later settings
            return
        peer = self.random.choice([self.client, self.runtime])
        peer.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: self.random.choice([1000, 65_535, 200_000])})

    def ping(self) -> None:
        body = b"%08d" % len(self.pings["sent"])
        self.random.choice([self.client, self.runtime]).ping(body)
        self.pings["sent"].append(body)

    def cancel(self) -> None:
        open_calls = [stream for stream, call in self.calls.items() if call.status is None and not call.reset]
        if open_calls:
            stream = self.random.choice(open_calls)
            self.client.reset_stream(stream, 8)
            self.calls[stream].reset = True

    # What the peers see

    def see_connection(self, event: h2.events.Event) -> None:
        self.greeted += isinstance(event, h2.events.SettingsAcknowledged)
        if isinstance(event, h2.events.PingAckReceived):
            self.pings["answered"].append(event.ping_data)

    def on_runtime(self, event: h2.events.Event) -> None:
        self.see_connection(event)
        if isinstance(event, h2.events.DataReceived):
            call = self.calls[event.stream_id]
            call.seen += event.data
            self.owed.append((self.runtime, event.stream_id, event.flow_controlled_length))
        if isinstance(event, h2.events.RequestReceived):
            self.calls[event.stream_id].known = True
            assert [pair for pair in event.headers if pair[0][:1] != b":"] == self.calls[event.stream_id].asked
        if isinstance(event, h2.events.StreamEnded):
            self.calls[event.stream_id].seen_end = True
        if isinstance(event, h2.events.StreamReset):
            self.calls[event.stream_id].answered = True

    def on_client(self, event: h2.events.Event) -> None:
        self.see_connection(event)
        if isinstance(event, h2.events.DataReceived):
            self.calls[event.stream_id].got += event.data
            self.owed.append((self.client, event.stream_id, event.flow_controlled_length))
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            found = dict(event.headers).get(b"grpc-status")
            self.calls[event.stream_id].heard += [pair for pair in event.headers if pair[0].startswith(b"tell")]
            self.calls[event.stream_id].status = found or self.calls[event.stream_id].status


def expected(call: Call) -> tuple[bytes, bytes]:
    """Status and reply that the client must have."""
    match call.method:
        case "/s/Pass":
            return b"0", pack(call.message)
        case "/s/Hold":
            return b"0", pack(rewritten(call.message))
        case "/s/Refuse":
            return b"9", b""
        case _:
            return b"12", b""


@given(st.integers(0, 2**32), st.integers(10, 150))
@settings(max_examples=25, deadline=None)
def test_neither_peer_complains_and_every_call_comes_to_what_it_should(seed: int, steps: int) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.finish()
    # python-h2 bears other frames before them, nghttp2 does not (RFC 9113, 3.4)
    assert [world.heads[0][-6], world.heads[1][3]] == [frames.SETTINGS, frames.SETTINGS]
    assert sorted(world.pings["answered"]) == sorted(world.pings["sent"])
    for call in world.calls.values():
        if call.method in ("/s/Refuse", "/old/Any"):
            assert not call.seen
        if call.reset:
            assert call.outcome in (None, Aborted(sent=False), Aborted(sent=True)) or isinstance(call.outcome, Replied)
            continue
        assert (call.status, bytes(call.got)) == expected(call)
        if call.method in ("/s/Pass", "/s/Hold"):
            assert call.heard == call.told
        if call.method == "/s/Hold":
            assert call.outcome == Replied(rewritten(call.message))
        else:
            assert call.outcome is None
