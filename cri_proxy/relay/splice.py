"""Join a client and a runtime HTTP/2 connection, without I/O: forward frames, hold requests, answer refused ones.

Bytes in, bytes and events out; no tasks, no clock. Every frame goes on unchanged, except:

* request DATA of a wanted method is held until ``resume`` or ``refuse``. Its HEADERS are passed on, in order: the
  compression table of HPACK needs them all. A refused stream is reset towards the runtime and answered with literals
  that are never indexed.
* the client's SETTINGS ask for a compression table of size 0, so that the runtime's header blocks can be read one by
  one. Replies are observed, never held, but for one kind of answer (``fallback_answers.py``).
* WINDOW_UPDATE frames are kept true for both ends. Small ones for the client's connection may wait until it gets other
  frames, and PING frames of the runtime may be answered here (``upstream.py``).
* GOAWAY and PING frames ask a client to leave (``answers.py``).

Its own frames stand only where they may (``preface.py``); header blocks pass as they come (``headers.py``).

A malformed frame raises ProtocolError; the owner then closes both sides.
"""

from collections.abc import Callable
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, ProtocolError
from cri_proxy.http2.headers import DEFAULT_TABLE_BYTES, Headers
from cri_proxy.http2.message import MAX_MESSAGE_BYTES, MessageError
from cri_proxy.http2.status import Code
from cri_proxy.relay.answers import Answers, Goaway
from cri_proxy.relay.calls import Aborted, Interest, Outcome
from cri_proxy.relay.direction import Direction, Parts
from cri_proxy.relay.fallback_answers import StandIns, Unimplemented
from cri_proxy.relay.headers import ReplyBlocks, RequestBlocks, request_reader, timeout_seconds_of
from cri_proxy.relay.held_call import MAX_BODY_BYTES, Held, HeldCall, HeldCallEnded, Phase
from cri_proxy.relay.passthrough import CONTROL_BYTES, PassthroughCalls
from cri_proxy.relay.preface import ClientPreface, OwnFrames
from cri_proxy.relay.request_quota import ConnectionQuota, RequestQuota
from cri_proxy.relay.traffic import Passed
from cri_proxy.relay.upstream import Upstream

_MAX_PASSED: Final = 10_000  # a kubelet has at most a call for each of a few hundred pods in flight

Event = Held | HeldCallEnded | Unimplemented

_REASONS: Final = {frames.COMPRESSION_ERROR: "compression", frames.ENHANCE_YOUR_CALM: "flood"}


class Splice:
    """The state of one pair of connections. Empty ``to_client``, ``to_runtime`` and ``events`` after each call."""

    def __init__(
        self,
        wants: Callable[[str], Interest],
        passed: Passed | None = None,
        quota: RequestQuota | None = None,
        on_malformed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Ask ``wants`` what to do with a method; count pass-through calls in ``passed``, held ones in ``quota``.

        ``on_malformed`` counts requests that were not understood, by the reasons of ``metrics/catalog.py``.
        """
        self.to_client: Parts = []
        self.to_runtime: Parts = []
        self.events: list[Event] = []
        self._wants = wants
        self._on_malformed = on_malformed
        self._held: dict[int, HeldCall] = {}
        self._quota = ConnectionQuota(quota or RequestQuota())
        self._client_preface = ClientPreface(self.to_runtime)
        self._own = OwnFrames(self.to_client)
        self._own_to_runtime = OwnFrames(self.to_runtime, is_greeted=True)
        self._answers = Answers(self._own, self._own_to_runtime)
        self._settings_seen = False
        self.goaway = Goaway(self._own)
        self._upstream = Upstream(self._own, self._own_to_runtime)
        reader = request_reader()
        self._passthrough = PassthroughCalls(self._upstream, self.goaway, reader, self._new_call, passed)
        requests = RequestBlocks(reader, self._passthrough, self._new_call, self._client_trailers, self._refuse_unread)
        self._stand_ins = StandIns(self._passthrough, self._answers, self.events.append)
        self.stand_in = self._stand_ins.answer
        ignored, keeps = self._answers.runtime_ignored, self._stand_ins.keeps
        replies = ReplyBlocks(self._held, ignored, self._passthrough, self._end_by_runtime, keeps)
        self._from_client = self._client_direction(requests)
        self._from_runtime = self._runtime_direction(replies)

    def _client_direction(self, requests: RequestBlocks) -> Direction:
        return Direction(
            self.to_runtime,
            {
                frames.DATA: self._client_data,
                frames.RST_STREAM: self._client_reset,
                frames.SETTINGS: self._client_settings,
                frames.PUSH_PROMISE: self._client_push,
                frames.PING: self._client_ping,
                frames.WINDOW_UPDATE: self._client_window,
            },
            requests.on_block,
            self._own_to_runtime.hold_back,
        )

    def _runtime_direction(self, replies: ReplyBlocks) -> Direction:
        return Direction(
            self.to_client,
            {
                frames.DATA: self._runtime_data,
                frames.RST_STREAM: self._runtime_reset,
                frames.SETTINGS: self._runtime_settings,
                frames.PING: self._upstream.ping,
                frames.WINDOW_UPDATE: self._runtime_window,
                frames.GOAWAY: self._runtime_goaway,
            },
            replies.on_block,
            self._own.hold_back,
            max_block_bytes=None,  # for the client to judge: it is passed on as it comes
        )

    def receive_from_client(self, data: bytes) -> None:
        """Receive bytes of the client. Raises ProtocolError; everything before the malformed frame still counts."""
        try:
            self._receive_from_client(data)
        except ProtocolError as error:
            self._on_malformed(_REASONS.get(error.code, "protocol"))
            raise

    def _receive_from_client(self, data: bytes) -> None:
        if len(self._passthrough.streams) > _MAX_PASSED:
            raise ProtocolError(f"more than {_MAX_PASSED} calls in flight", frames.ENHANCE_YOUR_CALM)
        if not self._client_preface.is_over:
            data = self._client_preface.receive(data)
        if self._from_client.is_clear:
            data = self._passthrough.requests(data)
        if data:
            self._from_client.receive(data)
        if self._upstream.kept_bytes:
            self._upstream.give_needed()
        if not self._own.is_open:
            self._own.check()

    def receive_from_runtime(self, data: bytes) -> None:
        """Receive bytes of the runtime. Raises ProtocolError; everything before the malformed frame still counts."""
        if self._from_runtime.is_clear:
            if len(data) <= CONTROL_BYTES:
                data = self._passthrough.control(data)
            if data:
                data = self._passthrough.replies(data)
        if data:
            self._from_runtime.receive(data)
        if self.to_client:
            self._upstream.give()

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight except endless streams."""
        return not self._held and not self._passthrough.streams

    @property
    def in_flight(self) -> frozenset[int]:
        """The streams of the calls in flight, endless ones left out."""
        return frozenset((*self._held, *self._passthrough.streams))

    def resume(self, stream: int, message: bytes | None) -> None:
        """Send a held request on: unchanged (None), or with this message. Ignores a call that has ended."""
        call = self._held.get(stream)
        if call is None or call.phase is not Phase.ASKING:
            return
        call.send(message)
        self._quota.went_on()
        self._upstream.send()

    def refuse(self, stream: int, code: int, message: str) -> None:
        """Answer a held call with this status; nothing of it reaches the runtime. Ignores a call that has ended."""
        call = self._held.get(stream)
        if call is not None and call.phase is not Phase.SENDING:
            self._forget(call)
            if self._from_runtime.sends_last_block(stream):
                self._answers.none(stream, client_open=call.client_open)
            else:
                self._answers.status(stream, code, message, client_open=call.client_open, begun=call.reply_begun)

    def refuse_unseen(self, stream: int) -> None:
        """Refuse a held call as not processed; see ``Refuse.was_unseen``."""
        call = self._held.get(stream)
        if call is None or call.phase is Phase.SENDING:
            return
        # The client has seen a part of an answer: too late for REFUSED_STREAM.
        if call.reply_begun or self._from_runtime.sends_last_block(stream):
            self.refuse(stream, Code.UNAVAILABLE, "try again")
            return
        self._forget(call)
        self._answers.unseen(stream, client_open=call.client_open)

    def finish(self, code: int = frames.NO_ERROR) -> None:
        """Send the last GOAWAY; nothing may be received after it."""
        self.goaway.finish(self._passthrough.last_stream, code)

    def lost(self) -> None:
        """End every held call: a connection broke."""
        for call in tuple(self._held.values()):
            self._end(call, call.broken())

    # Frames of the client

    def _new_call(self, stream: int, headers: Headers, ends: bool) -> None:
        path = headers.get(b":path", b"")
        method = path.decode("utf-8", "replace")
        match self._wants(method):
            case Interest.PASS:
                self._passthrough.learn(stream, path)
            case Interest.STAND_IN:
                self._passthrough.replace(stream, path, method)
            case Interest.HOLD if not ends:  # without a message the runtime has nothing to act on
                if problem := self._quota.take(0, calls=1):
                    self._answers.status(stream, Code.RESOURCE_EXHAUSTED, problem, client_open=True)
                    return
                self._held[stream] = HeldCall(stream, method, headers, self._upstream.open(stream))
            case Interest.REFUSE:
                self._answers.status(stream, Code.UNIMPLEMENTED, f"unknown method {method}", client_open=not ends)

    def _refuse_unread(self, stream: int, reason: str, code: Code, problem: str, ends: bool) -> None:
        self._on_malformed(reason)
        self._answers.status(stream, code, problem, client_open=not ends)

    def _client_trailers(self, stream: int) -> None:
        """End the call of a second header block: gRPC requests have none, and headers cannot be held back."""
        call = self._held.get(stream)
        self._answers.client_ignored.pop(stream, None)  # trailers end the stream
        if call is not None:
            call.client_open = False
            self.refuse(stream, Code.INTERNAL, "request trailers are not gRPC")
        elif stream in self._upstream.waiting:
            self._upstream.drop_waiting(stream)
            self._passthrough.streams.discard(stream)
            self._answers.status(stream, Code.INTERNAL, "request trailers are not gRPC", client_open=False)

    def _client_data(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        call = self._held.get(stream)
        if call is None and stream not in self._answers.client_ignored:
            return self._upstream.pass_data(buffer, cut)
        ends = bool(flags & frames.END_STREAM)
        self._upstream.credit_client(stream, end - start - frames.HEADER_BYTES, end_stream=ends)
        if call is None:
            if ends:
                self._answers.client_ignored.pop(stream, None)
            return False
        if not call.client_open:
            raise ProtocolError("DATA after the end of its stream")
        call.client_open = not ends
        body = frames.payload(buffer, cut)
        if len(call.request) + len(body) > MAX_BODY_BYTES:
            self.refuse(stream, Code.RESOURCE_EXHAUSTED, f"request larger than {MAX_MESSAGE_BYTES} bytes")
        elif self._may_grow(call, len(body)):
            call.request += body
            if ends:
                self._ask(call)
        return False

    def _may_grow(self, call: HeldCall, size_bytes: int) -> bool:
        """Count more bytes of a call, or refuse it."""
        if size_bytes and (problem := self._quota.take(size_bytes)):
            self.refuse(call.stream, Code.RESOURCE_EXHAUSTED, problem)
            return False
        call.counted_bytes += size_bytes
        return True

    def _ask(self, call: HeldCall) -> None:
        try:
            grown_bytes = call.complete()
        except MessageError as error:
            self.refuse(call.stream, error.code, str(error))
            return
        if self._may_grow(call, grown_bytes):  # a compressed request is kept beside its plain message
            call.phase = Phase.ASKING
            self.events.append(Held(call.stream, call.method, call.message, timeout_seconds_of(call.headers)))

    def _client_reset(self, buffer: bytes, cut: Cut) -> bool:
        stream = cut[2]
        answers = self._answers
        if stream in answers.client_ignored:
            del answers.client_ignored[stream]  # refused, and so reset at the runtime already
            return False
        if stream in answers.runtime_ignored:  # already reset towards the runtime when it was refused
            return False
        call = self._held.get(stream)
        if call is not None:
            self._end(call, call.broken())
        else:
            self._passthrough.streams.discard(stream)
            self._upstream.drop_waiting(stream)
        return True

    def _client_settings(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, _, start, end = cut
        if flags & frames.ACK:
            self._upstream.acknowledged()
            return True
        pairs = dict(frames.parse_settings(buffer[start + frames.HEADER_BYTES : end]))
        if frames.SETTINGS_MAX_FRAME_SIZE in pairs:
            cutter = self._from_runtime.cutter  # only ever larger: frames of the old size may be on their way
            cutter.max_frame_bytes = max(cutter.max_frame_bytes, pairs[frames.SETTINGS_MAX_FRAME_SIZE])
        if self._settings_seen and frames.SETTINGS_HEADER_TABLE_SIZE not in pairs:
            return True
        self._settings_seen = True  # from now on a frame that names no size of the table is right as it is
        if pairs.get(frames.SETTINGS_HEADER_TABLE_SIZE, DEFAULT_TABLE_BYTES) < DEFAULT_TABLE_BYTES:
            self._answers.table_is_smaller()
        pairs[frames.SETTINGS_HEADER_TABLE_SIZE] = 0  # blocks without state can be dropped, and ours put between
        self.to_runtime.append(frames.settings(list(pairs.items())))
        return False

    def _client_push(self, buffer: bytes, cut: Cut) -> bool:
        raise ProtocolError("a PUSH_PROMISE of a client")  # RFC 9113, 8.4; its block would change the table unread

    def _client_ping(self, buffer: bytes, cut: Cut) -> bool:
        return not self.goaway.is_answer(buffer, cut)

    def _client_window(self, buffer: bytes, cut: Cut) -> bool:
        _, _, stream, start, end = cut
        if stream or not self._passthrough.lent_bytes:
            return stream not in self._answers.runtime_ignored
        increment = frames.parse_number(buffer[start + frames.HEADER_BYTES : end], "WINDOW_UPDATE")
        if left := self._stand_ins.repaid(increment & frames.MAX_WINDOW_BYTES):
            self._own_to_runtime.send(frames.window_update(0, left))
        return False

    # Frames of the runtime

    def _runtime_data(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        call = self._held.get(stream)
        if call is not None:
            call.see_reply(frames.payload(buffer, cut))
            if flags & frames.END_STREAM:
                self._end_by_runtime(call, call.broken())
        elif stream in self._answers.runtime_ignored:
            if end - start > frames.HEADER_BYTES:  # the client never sees it, and will not credit it
                self._own_to_runtime.send(frames.window_update(0, end - start - frames.HEADER_BYTES))
            return False
        elif flags & frames.END_STREAM:
            self._passthrough.streams.discard(stream)
        return True

    def _runtime_reset(self, buffer: bytes, cut: Cut) -> bool:
        _, _, stream, start, end = cut
        if self._stand_ins.has(stream):
            return False
        code = frames.parse_number(buffer[start + frames.HEADER_BYTES : end], "RST_STREAM")
        self._passthrough.streams.discard(stream)
        call = self._held.get(stream)
        if call is not None:
            outcome = Aborted(sent=False) if code == frames.REFUSED_STREAM else call.broken()  # RFC 9113, 8.7
            self._end_by_runtime(call, outcome, was_reset=True)
        return stream not in self._answers.runtime_ignored

    def _runtime_settings(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, _, start, end = cut
        if not flags & frames.ACK:
            pairs = dict(frames.parse_settings(buffer[start + frames.HEADER_BYTES : end]))
            self._upstream.settings(pairs.get(frames.SETTINGS_INITIAL_WINDOW_SIZE))
            cutter = self._from_client.cutter  # likewise
            cutter.max_frame_bytes = max(cutter.max_frame_bytes, pairs.get(frames.SETTINGS_MAX_FRAME_SIZE, 0))
            self._own.open()
        return True

    def _runtime_window(self, buffer: bytes, cut: Cut) -> bool:
        _, _, stream, start, end = cut
        increment = frames.parse_number(buffer[start + frames.HEADER_BYTES : end], "WINDOW_UPDATE")
        increment &= frames.MAX_WINDOW_BYTES  # the reserved bit says nothing (RFC 9113, 6.9)
        if stream == 0:
            return self._upstream.connection_credit(increment)
        if stream in self._held:
            self._upstream.stream_credit(stream, increment)
            return False
        return stream not in self._answers.runtime_ignored

    def _runtime_goaway(self, buffer: bytes, cut: Cut) -> bool:
        start = cut[3] + frames.HEADER_BYTES
        last = int.from_bytes(buffer[start : start + 4], "big") & frames.MAX_WINDOW_BYTES
        for call in tuple(self._held.values()):
            if call.stream > last:  # never to be processed (RFC 9113, 6.8)
                self._end_by_runtime(call, Aborted(sent=False), was_reset=True)
        self._passthrough.streams.difference_update([s for s in self._passthrough.streams if s > last])
        return True

    # Ends of calls

    def _end(self, call: HeldCall, outcome: Outcome) -> None:
        self._forget(call)
        if call.phase is not Phase.COLLECTING:
            self.events.append(HeldCallEnded(call.stream, outcome))

    def _end_by_runtime(self, call: HeldCall, outcome: Outcome, *, was_reset: bool = False) -> None:
        """End a call that the runtime ended; the rest of its request is not sent."""
        if (not call.outgoing.ready or call.outgoing.body) and not was_reset:
            self._own_to_runtime.send(frames.rst_stream(call.stream, frames.CANCEL))
        if call.client_open:
            self._answers.ignore_client(call.stream)
        self._end(call, outcome)

    def _forget(self, call: HeldCall) -> None:
        del self._held[call.stream]
        self._quota.give_back(call.counted_bytes)
        self._upstream.close(call.stream)
