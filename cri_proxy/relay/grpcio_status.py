"""Statuses that grpcio makes up itself, and what they truly are. Loaded with the relay on grpc.aio only."""

from pathlib import Path
from typing import Final

import grpc
from grpc import aio

from cri_proxy.http2.status import UNKNOWN_OUTCOME, Failed
from cri_proxy.relay.calls import Aborted, Outcome

# What grpcio's asyncio calls say when a write of theirs fails, before the core has said why (grpc/aio/_call.py).
LOST_WRITE: Final = "Internal error from Core"


def true_status(code: grpc.StatusCode, details: str, runtime: Path) -> tuple[grpc.StatusCode, str]:
    """The status and message for the caller; ``runtime`` is the socket that was called.

    A request that could not be written is no fault inside anybody: the connection broke under it, for which the core
    has UNAVAILABLE. The runtime may also have ended the call just then, with a status that grpcio has lost.
    """
    if code is grpc.StatusCode.INTERNAL and details == LOST_WRITE:
        return grpc.StatusCode.UNAVAILABLE, f"the runtime at {runtime} went away, or ended the call, during a request"
    return code, details


def failure_of(error: aio.AioRpcError) -> Outcome:
    """What a failed call means for our books.

    grpcio makes some statuses up itself when a connection breaks, and they look like the runtime's own: what could
    be such a one is unknown.
    """
    code = error.code().value[0]
    if code in UNKNOWN_OUTCOME:
        never_connected = "failed to connect" in (error.details() or "")
        return Aborted(sent=not never_connected)
    return Failed(code, error.details() or "")
