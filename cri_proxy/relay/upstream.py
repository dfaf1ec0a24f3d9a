"""Flow control towards the runtime (RFC 9113, 5.2), for a connection whose sender is partly the client, partly we.

The client knows the runtime's windows less what it sent itself. What it sent and we kept, it is given back at once;
what we send in its place is a *debt*: the runtime's next credit for the connection pays that first and only the rest
goes on to the client. Until it is paid the client may believe in more window than there is, so its DATA can
have to wait here:

    runtime's window = client's window + waiting bytes - debt
"""

from collections import deque
from dataclasses import dataclass, field

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut
from cri_proxy.relay.direction import Parts


@dataclass(slots=True)
class Outgoing:
    """A request body of ours on its way to the runtime, and what its stream's window still allows."""

    stream: int
    window_bytes: int
    body: bytes = b""
    ready: bool = False  # the body is known and may go
    sent_bytes: int = 0

    @property
    def done(self) -> bool:
        """Whether the last byte and the end of the stream are out."""
        return self.ready and not self.body


@dataclass(slots=True)
class _Waiting:
    stream: int
    body: bytes
    end_stream: bool


@dataclass(slots=True)
class Upstream:
    """The windows of one connection, and what waits for them."""

    to_client: Parts
    to_runtime: Parts
    window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    debt_bytes: int = 0
    initial_window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    _agreed_window_bytes: int = frames.DEFAULT_WINDOW_BYTES
    _outgoing: dict[int, Outgoing] = field(default_factory=dict)
    waiting: deque[_Waiting] = field(default_factory=deque)
    _unacknowledged: deque[int | None] = field(default_factory=deque)

    # From the client

    def pass_data(self, buffer: bytes, cut: Cut) -> bool:
        """Whether this DATA frame of the client may go on now; otherwise it waits here."""
        _, flags, stream, start, end = cut
        length = end - start - frames.HEADER_BYTES
        if not self.waiting and length <= self.window_bytes:
            self.window_bytes -= length
            return True
        body = frames.payload(buffer, cut)
        if length > len(body):  # we send it without its padding, so nobody else will give that back
            self.credit_client(stream, length - len(body), end_stream=bool(flags & frames.END_STREAM))
        self.waiting.append(_Waiting(stream, body, bool(flags & frames.END_STREAM)))
        self.send()
        return False

    @property
    def waiting_bytes(self) -> int:
        """How much of the client's DATA waits here."""
        return sum(len(entry.body) for entry in self.waiting)

    def has_waiting(self, stream: int) -> bool:
        """Whether DATA of this stream waits here."""
        return any(entry.stream == stream for entry in self.waiting)

    def drop_waiting(self, stream: int) -> None:
        """The client reset a stream: forget its waiting DATA and give the connection's window back."""
        dropped = sum(len(entry.body) for entry in self.waiting if entry.stream == stream)
        self.waiting = deque(entry for entry in self.waiting if entry.stream != stream)
        if dropped:
            self.to_client.append(frames.window_update(0, dropped))

    def credit_client(self, stream: int, length: int, *, end_stream: bool) -> None:
        """Give back at once what the client spent on a frame that we keep."""
        if length:
            self.to_client.append(frames.window_update(0, length))
            if not end_stream:
                self.to_client.append(frames.window_update(stream, length))

    def acknowledged(self) -> None:
        """The client acknowledged the runtime's oldest SETTINGS: the runtime counts with them from now on."""
        value = self._unacknowledged.popleft() if self._unacknowledged else None
        if value is not None:
            self._agreed_window_bytes = value
        self._set_initial_window()

    # From the runtime

    def settings(self, initial_window_bytes: int | None) -> None:
        """The runtime sent SETTINGS. A smaller window counts at once, a larger one when acknowledged."""
        self._unacknowledged.append(initial_window_bytes)
        self._set_initial_window()

    def connection_credit(self, increment: int) -> bool:
        """The runtime credits the connection: pay the debt, pass on the rest. True if all of it may go on as it is."""
        self.window_bytes += increment
        paid = min(self.debt_bytes, increment)
        self.debt_bytes -= paid
        if paid and paid < increment:
            self.to_client.append(frames.window_update(0, increment - paid))
        self.send()
        return not paid

    def stream_credit(self, stream: int, increment: int) -> None:
        """The runtime credits a stream of ours."""
        self._outgoing[stream].window_bytes += increment
        self.send()

    # Ours

    def open(self, stream: int) -> Outgoing:
        """A stream whose body we shall send."""
        outgoing = self._outgoing[stream] = Outgoing(stream, self.initial_window_bytes)
        return outgoing

    def close(self, stream: int) -> None:
        """A stream of ours is over; what was not sent never will be."""
        self._outgoing.pop(stream, None)

    def send(self) -> None:
        """Send what the windows allow: what waits of the client's first, in its order, then ours."""
        while self.waiting and (self.window_bytes > 0 or not self.waiting[0].body):
            entry = self.waiting[0]
            part = self._take(entry.body, self.window_bytes)
            entry.body = entry.body[len(part) :]
            last = not entry.body
            if last:
                self.waiting.popleft()
            self.to_runtime.extend(frames.data_frames(entry.stream, part, end_stream=last and entry.end_stream))
        if self.waiting:
            return
        for outgoing in self._outgoing.values():
            if outgoing.ready and outgoing.body and outgoing.window_bytes > 0 and self.window_bytes > 0:
                part = self._take(outgoing.body, min(self.window_bytes, outgoing.window_bytes))
                outgoing.body = outgoing.body[len(part) :]
                outgoing.window_bytes -= len(part)
                outgoing.sent_bytes += len(part)
                self.debt_bytes += len(part)
                self.to_runtime.extend(frames.data_frames(outgoing.stream, part, end_stream=not outgoing.body))

    def _take(self, body: bytes, limit: int) -> bytes:
        part = body[:limit]
        self.window_bytes -= len(part)
        return part

    def _set_initial_window(self) -> None:
        announced = [value for value in self._unacknowledged if value is not None]
        value = min(self._agreed_window_bytes, *announced) if announced else self._agreed_window_bytes
        for outgoing in self._outgoing.values():
            outgoing.window_bytes += value - self.initial_window_bytes
        self.initial_window_bytes = value
        self.send()
