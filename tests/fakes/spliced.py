"""A splice in the middle of a conversation, ready for the frames of a test."""

from cri_proxy.http2 import frames
from cri_proxy.relay.calls import Interest
from cri_proxy.relay.request_quota import RequestQuota
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import GREETING, Pairs, credit, request

HOLD, PASS, OLD = "/s/Hold", "/s/Pass", "/old/Any"


def wants(method: str) -> Interest:
    return {HOLD: Interest.HOLD, OLD: Interest.REFUSE}.get(method, Interest.PASS)


def splice(*from_client: bytes, quota: RequestQuota | None = None) -> Splice:
    """A splice whose greetings are over and forgotten, and which has read this of the client."""
    made = Splice(wants, quota=quota)
    made.receive_from_client(GREETING)
    made.receive_from_runtime(frames.settings([]))
    made.receive_from_client(frames.settings_ack())
    forget(made)
    made.receive_from_client(b"".join(from_client))
    return made


def forget(made: Splice) -> None:
    made._upstream.give()  # what is kept for the client is told too
    made.to_client.clear()
    made.to_runtime.clear()
    made.events.clear()


def credited(made: Splice) -> int:
    """What the client was credited for the connection, and what is kept for it."""
    return credit(made.to_client, 0) + made._upstream.kept_bytes


def asked(message: bytes = b"message", *, extra: Pairs | None = None) -> Splice:
    """A splice with a call on stream 1 that waits for its verdict, and nothing else to tell."""
    made = splice(request(1, HOLD, message, extra=extra))
    forget(made)
    return made


def sent(message: bytes = b"message") -> Splice:
    """The same after the call was sent on."""
    made = asked(message)
    made.resume(1, None)
    forget(made)
    return made
