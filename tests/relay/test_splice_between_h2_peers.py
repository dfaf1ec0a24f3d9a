"""The splice between two strict HTTP/2 peers (python-h2), which raise at the first frame that breaks the rules.

Calls, credit, verdicts, settings and resets come in random order, bytes in random chunks, windows are small: whatever
the order, neither peer may complain, and at the end every call has come to what it should.
"""

import random
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.settings
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.relay.calls import Aborted, Interest, Outcome, Replied
from cri_proxy.relay.message import pack
from cri_proxy.relay.splice import Ended, Held, Splice

INTERESTS = {"/s/Hold": Interest.HOLD, "/s/Refuse": Interest.HOLD, "/old/Any": Interest.REFUSE}
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
    """Client, splice, runtime, and the bytes on their way between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.runtime = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.splice = Splice(lambda method: INTERESTS.get(method, Interest.PASS))
        self.calls: dict[int, Call] = {}
        self.held: list[Held] = []
        self.owed: list[tuple[h2.connection.H2Connection, int, int]] = []
        self.pipes = [bytearray() for _ in range(4)]
        self.client.initiate_connection()
        self.runtime.initiate_connection()
        for _ in range(200):  # h2 takes the first acknowledgement for that of any later settings
            self.carry()

    def step(self) -> None:
        """One random thing happens."""
        acts = [self.start_call, self.send_request, self.answer, self.credit, self.decide]
        rare = [self.resize, self.cancel, self.begin_early]
        self.random.choices([self.carry, *acts, *rare], weights=[12, 3, 4, 4, 4, 3, 0.3, 0.4, 1])[0]()

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
        to_runtime += b"".join(self.splice.to_runtime)
        to_client += b"".join(self.splice.to_client)
        self.splice.to_runtime.clear()
        self.splice.to_client.clear()
        for event in self.splice.events:
            if isinstance(event, Held):
                assert event.message == self.calls[event.stream].message
                self.held.append(event)
            else:
                self.end(event)
        self.splice.events.clear()
        for seen in self.runtime.receive_data(self.chunk(to_runtime)):
            self.on_runtime(seen)
        for seen in self.client.receive_data(self.chunk(to_client)):
            self.on_client(seen)

    def end(self, event: Ended) -> None:
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
        self.client.send_headers(stream, [*fields, (b"grpc-timeout", b"%dm" % self.random.randrange(9999))])
        self.calls[stream] = Call(method, message, pack(message))

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
                    self.runtime.send_headers(stream, [(b"grpc-status", b"0")], end_stream=True)
                    call.answered = True
                return

    def begin(self, stream: int, call: Call) -> None:
        if not call.begun:
            self.runtime.send_headers(stream, [(b":status", b"200"), (b"content-type", b"application/grpc")])
            call.begun = True

    def begin_early(self) -> None:
        """The runtime begins a reply before it has the request."""
        for stream, call in self.calls.items():
            if call.known and not call.answered and not call.begun:
                self.begin(stream, call)
                return

    def credit(self) -> None:
        if self.owed:
            peer, stream, size = self.owed.pop(self.random.randrange(len(self.owed)))
            peer.acknowledge_received_data(size, stream)

    def decide(self) -> None:
        if self.held:
            held = self.held.pop(self.random.randrange(len(self.held)))
            if held.method == "/s/Refuse":
                self.splice.refuse(held.stream, 9, "no")
            else:
                self.splice.resume(held.stream, rewritten(held.message))

    def resize(self) -> None:
        """The runtime changes its windows; smaller ones between calls only, since h2 never credits a negative one."""
        calls_are_open = any(call.status is None and not call.reset for call in self.calls.values())
        size = 200_000 if calls_are_open else self.random.choice([1000, 65_535])
        self.runtime.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})

    def cancel(self) -> None:
        open_calls = [stream for stream, call in self.calls.items() if call.status is None and not call.reset]
        if open_calls:
            stream = self.random.choice(open_calls)
            self.client.reset_stream(stream, 8)
            self.calls[stream].reset = True

    # What the peers see

    def on_runtime(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            call = self.calls[event.stream_id]
            call.seen += event.data
            self.owed.append((self.runtime, event.stream_id, event.flow_controlled_length))
        if isinstance(event, h2.events.RequestReceived):
            self.calls[event.stream_id].known = True
        if isinstance(event, h2.events.StreamEnded):
            self.calls[event.stream_id].seen_end = True
        if isinstance(event, h2.events.StreamReset):
            self.calls[event.stream_id].answered = True

    def on_client(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self.calls[event.stream_id].got += event.data
            self.owed.append((self.client, event.stream_id, event.flow_controlled_length))
        if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            found = dict(event.headers).get(b"grpc-status")
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
@settings(max_examples=40, deadline=None)
def test_neither_peer_complains_and_every_call_comes_to_what_it_should(seed: int, steps: int) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.finish()
    for call in world.calls.values():
        if call.method in ("/s/Refuse", "/old/Any"):
            assert not call.seen
        if call.reset:
            assert call.outcome in (None, Aborted(sent=False), Aborted(sent=True)) or isinstance(call.outcome, Replied)
            continue
        assert (call.status, bytes(call.got)) == expected(call)
        if call.method == "/s/Hold":
            assert call.outcome == Replied(rewritten(call.message))
        else:
            assert call.outcome is None
