"""Flow control towards the runtime: track windows, queue the client's DATA, send held bodies, credit the client.

Both the client and the splice send DATA on one connection (RFC 9113, 5.2). The client counts what it sent against the
runtime's windows. DATA that the splice keeps is credited to the client at once. DATA that the splice sends instead is a
*debt*: the runtime's next credit for the connection pays it, and only the rest goes on to the client. Until then the
client may count on more window than there is, so its DATA may wait:

    runtime's window = client's window + kept credit + waiting bytes - debt

Every credit for the client passes here, so no correct client sends more. DATA beyond it ends the connection (RFC 9113,
6.9.1); what waits is therefore never more than the debt and the runtime's window.

A small credit for the connection is *kept* until there are other frames for the client: for a credit alone it would
wake up. Below half of its first window it is given all, so that what is kept can never stop it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.relay.preface import OwnFrames

_PING_BYTES: Final = 8
_MOST_KEPT_BYTES: Final = 16 << 10
_NEEDED_BYTES: Final = frames.DEFAULT_WINDOW_BYTES // 2


@dataclass(slots=True)
class Outgoing:
    """A request body that the splice sends, and the window that is left of its stream."""

    stream: int
    window_bytes: int
    body: bytes = b""
    ready: bool = False  # the body is known and may go
    sent_bytes: int = 0


@dataclass(slots=True)
class _Waiting:
    body: bytearray = field(default_factory=bytearray)
    end_stream: bool = False


@dataclass(slots=True)
class Upstream:
    """The windows of one connection, and the DATA that waits for them."""

    to_client: OwnFrames
    to_runtime: OwnFrames
    window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    debt_bytes: int = 0
    initial_window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    _agreed_window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    _outgoing: dict[int, Outgoing] = field(default_factory=dict)
    waiting: dict[int, _Waiting] = field(default_factory=dict)  # by stream, the first to wait first
    waiting_bytes: int = 0
    kept_bytes: int = 0  # of credits for the connection that the client does not have yet
    _unacknowledged: deque[int | None] = field(default_factory=deque)

    @property
    def owes(self) -> bool:
        """Whether a credit for the connection is not the client's alone: a debt, or bytes that wait here."""
        return bool(self.debt_bytes or self.waiting or self._outgoing)

    # From the client

    def pass_data(self, buffer: bytes, cut: frames.Cut) -> bool:
        """Return whether this DATA frame of the client may go on now; otherwise keep it here."""
        _, flags, stream, start, end = cut
        length = end - start - frames.HEADER_BYTES
        if not self.waiting and length <= self.window_bytes:
            self.window_bytes -= length
            return True
        self._check(length)
        entry = self.waiting.setdefault(stream, _Waiting())
        if entry.end_stream:
            raise frames.ProtocolError("DATA after the end of its stream")
        entry.end_stream = bool(flags & frames.END_STREAM)
        body = frames.payload(buffer, cut)
        if length > len(body):  # the padding is dropped here, so the runtime will not credit it
            self._credit(stream, length - len(body), end_stream=entry.end_stream)
        entry.body += body
        self.waiting_bytes += len(body)
        self.send()
        return False

    def drop_waiting(self, stream: int) -> None:
        """Drop the waiting DATA of a stream that the client reset, and credit the connection for it."""
        entry = self.waiting.pop(stream, None)
        if entry is not None and entry.body:
            self.waiting_bytes -= len(entry.body)
            self._credit(stream, len(entry.body), end_stream=True)  # of a closed stream the connection's window alone

    def credit_client(self, stream: int, length: int, *, end_stream: bool) -> None:
        """Credit the client for a frame that does not go on. Raises ProtocolError for one beyond its window."""
        self._check(length)
        self._credit(stream, length, end_stream=end_stream)

    def acknowledged(self) -> None:
        """Apply the runtime's oldest SETTINGS, which the client has acknowledged."""
        value = self._unacknowledged.popleft() if self._unacknowledged else None
        if value is not None:
            self._agreed_window_bytes = value
        self._set_initial_window()

    # From the runtime

    def settings(self, initial_window_bytes: int | None) -> None:
        """Note SETTINGS of the runtime."""
        # None too: the client acknowledges every SETTINGS frame, in order (RFC 9113, 6.5.3).
        self._unacknowledged.append(initial_window_bytes)
        self._set_initial_window()

    def connection_credit(self, increment: int) -> bool:
        """Pay the debt with a credit of the connection, pass on the rest; True when the frame may go on as it is."""
        self.window_bytes += increment
        paid = min(self.debt_bytes, increment)
        self.debt_bytes -= paid
        if paid and paid < increment:
            self._credit_connection(increment - paid)
        self.send()
        return not paid and not self.keep(increment)

    def stream_credit(self, stream: int, increment: int) -> None:
        """Apply the runtime's credit for a held stream."""
        self._outgoing[stream].window_bytes += increment
        self.send()

    def ping(self, buffer: bytes, cut: frames.Cut) -> bool:
        """Answer a PING, which asks for this end of the connection (RFC 9113, 6.7); True where the frame goes on.

        It does if it answers one of the client, or breaks the rules, which is for the client to judge.
        """
        _, flags, stream, start, end = cut
        payload = buffer[start + frames.HEADER_BYTES : end]
        if flags & frames.ACK or stream or len(payload) != _PING_BYTES:
            return True
        self.to_runtime.send(frames.frame(frames.PING, frames.ACK, 0, payload))
        return False

    # Credits that are kept

    def keep(self, increment: int) -> bool:
        """Keep a credit of the connection for now; False where it must go to the client at once."""
        kept = self.kept_bytes + increment
        # None at all is an error that the client is to see.
        if not increment or kept > _MOST_KEPT_BYTES or self._window_of_client - increment < _NEEDED_BYTES:
            return False
        self.kept_bytes = kept
        return True

    def give_needed(self) -> None:
        """Give the client what is kept, if its window has become small."""
        if self._window_of_client < _NEEDED_BYTES:
            self.give()

    def give(self) -> None:
        """Give the client what is kept."""
        if self.kept_bytes:
            self.to_client.send(frames.window_update(0, self.kept_bytes))
            self.kept_bytes = 0

    @property
    def _window_of_client(self) -> int:
        return self.window_bytes + self.debt_bytes - self.waiting_bytes - self.kept_bytes

    # From the splice

    def open(self, stream: int) -> Outgoing:
        """Open a stream whose body the splice will send."""
        outgoing = self._outgoing[stream] = Outgoing(stream, self.initial_window_bytes)
        return outgoing

    def close(self, stream: int) -> None:
        """Forget a held stream; what was not sent is dropped."""
        self._outgoing.pop(stream, None)

    def send(self) -> None:
        """Send what the windows allow: first the client's waiting DATA, in its order, then held bodies."""
        while self.waiting:
            stream, entry = next(iter(self.waiting.items()))
            # A frame without a body, which only ends its stream, needs no window (RFC 9113, 6.9).
            if entry.body and self.window_bytes <= 0:
                return
            part = self._take(entry.body, self.window_bytes)
            del entry.body[: len(part)]
            self.waiting_bytes -= len(part)
            last = not entry.body
            if last:
                del self.waiting[stream]
            self.to_runtime.send(*frames.data_frames(stream, part, end_stream=last and entry.end_stream))
        for outgoing in self._outgoing.values():
            if outgoing.ready and outgoing.body and outgoing.window_bytes > 0 and self.window_bytes > 0:
                part = self._take(outgoing.body, min(self.window_bytes, outgoing.window_bytes))
                outgoing.body = outgoing.body[len(part) :]
                outgoing.window_bytes -= len(part)
                outgoing.sent_bytes += len(part)
                self.debt_bytes += len(part)
                self.to_runtime.send(*frames.data_frames(outgoing.stream, part, end_stream=not outgoing.body))

    def _check(self, length: int) -> None:
        left = self.window_bytes + self.debt_bytes - self.waiting_bytes
        if length > left:
            raise frames.ProtocolError(f"DATA of {length} bytes in a window of {left}", frames.FLOW_CONTROL_ERROR)

    def _credit(self, stream: int, length: int, *, end_stream: bool) -> None:
        if length and end_stream:
            self._credit_connection(length)
        elif length:
            self.to_client.send(frames.window_update(0, length), frames.window_update(stream, length))

    def _credit_connection(self, length: int) -> None:
        if not self.keep(length):
            self.to_client.send(frames.window_update(0, length))

    def _take(self, body: bytes | bytearray, limit: int) -> bytes:
        part = bytes(body[:limit])
        self.window_bytes -= len(part)
        return part

    def _set_initial_window(self) -> None:
        # A smaller window counts at once: the runtime may enforce it. A larger one counts when the client, whose
        # acknowledgement it is, has it too.
        announced = [value for value in self._unacknowledged if value is not None]
        value = min(self._agreed_window_bytes, *announced) if announced else self._agreed_window_bytes
        for outgoing in self._outgoing.values():
            outgoing.window_bytes += value - self.initial_window_bytes
        self.initial_window_bytes = value
        self.send()
