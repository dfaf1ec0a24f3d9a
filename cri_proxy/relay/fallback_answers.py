"""Replace the runtime's answer to a call of interest STAND_IN that it does not know; part of the splice, without I/O.

The call passes like any other until the runtime ends it with a single block, and UNIMPLEMENTED in it. That block is
kept until ``answer``, and sent on then where there is no other answer. DATA that is sent in the runtime's place is
*lent* by the client's window: the client's next credit for the connection pays it, and the runtime gets the rest.
Until then the runtime counts on these few bytes too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, ProtocolError
from cri_proxy.http2.headers import FieldReader
from cri_proxy.http2.message import pack
from cri_proxy.http2.status import Code
from cri_proxy.relay.answers import Answers
from cri_proxy.relay.passthrough import PassthroughCalls

_STATUS: Final = b"grpc-status"
_UNIMPLEMENTED: Final = b"%d" % Code.UNIMPLEMENTED
_WHOLE_REPLY: Final = frames.END_STREAM | frames.END_HEADERS


@dataclass(frozen=True, slots=True)
class Unimplemented:
    """The runtime does not know this method; its answer waits for ``Splice.stand_in``."""

    stream: int
    method: str


@dataclass(slots=True)
class StandIns:
    """The kept answers of one pair of connections."""

    passing: PassthroughCalls
    answers: Answers
    on_kept: Callable[[Unimplemented], None]
    _kept: dict[int, bytes] = field(default_factory=dict)
    _reader: FieldReader = field(default_factory=lambda: FieldReader(frozenset({_STATUS}), table_bytes=0))

    def keeps(self, buffer: bytes, cut: Cut) -> bool:
        """Keep this header block of the runtime if it is UNIMPLEMENTED for a call that may be answered otherwise."""
        _, flags, stream, start, end = cut
        method = self.passing.replaceable.pop(stream, None)  # once: a reply that has begun passes to its end
        is_whole = flags & _WHOLE_REPLY == _WHOLE_REPLY
        # containerd before 2.0 answers RuntimeConfig so, without which kubelets from 1.38 on do not start.
        if method is None or not is_whole or not self._is_unimplemented(frames.payload(buffer, cut)):
            return False
        self._kept[stream] = buffer[start:end]
        self.on_kept(Unimplemented(stream, method))
        return True

    def has(self, stream: int) -> bool:
        """Whether the runtime's answer of this stream is kept: nothing of the runtime is to follow it."""
        return stream in self._kept

    def answer(self, stream: int, message: bytes | None) -> None:
        """Answer with this message, None: as the runtime did. Does nothing for a call that has ended meanwhile."""
        kept = self._kept.pop(stream, None)
        if kept is None or stream not in self.passing.streams:
            return
        self.passing.streams.discard(stream)
        if message is None:
            self.answers.kept(kept)
            return
        body = pack(message)
        self.answers.message(stream, body)
        self.passing.lent_bytes += len(body)

    def repaid(self, increment: int) -> int:
        """Return what is left for the runtime of a credit of the client for the connection."""
        paid = min(self.passing.lent_bytes, increment)
        self.passing.lent_bytes -= paid
        return increment - paid

    def _is_unimplemented(self, block: bytes) -> bool:
        try:
            return self._reader.read(block).get(_STATUS) == _UNIMPLEMENTED
        except ProtocolError:  # the runtime ignores the table size we asked for; the client can still read it
            return False
