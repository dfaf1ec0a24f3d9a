"""The value that answers an intercepted call (verdict and outcome callback), and the gRPC status of each refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from cri_proxy.http2.status import Code, Failed
from cri_proxy.node.coordinator import Refusal
from cri_proxy.relay.calls import Outcome, Refuse, Replied, Verdict

OnOutcome = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on a request, and the function to call with its outcome."""

    verdict: Verdict
    finish: OnOutcome | None = None


def took_effect(outcome: Outcome) -> bool:
    """Whether a stop or removal is done: the runtime confirms it, or does not know the container any more."""
    return isinstance(outcome, Replied) or (isinstance(outcome, Failed) and outcome.code == Code.NOT_FOUND)


def refused(refusal: Refusal) -> Answer:
    """Refuse a call. A retry may succeed after RESOURCE_EXHAUSTED and UNAVAILABLE, not after other codes."""
    match refusal.kind:
        case "full":
            code = Code.RESOURCE_EXHAUSTED
        case "strict" | "cdi":
            code = Code.FAILED_PRECONDITION
        case "annotation":
            code = Code.INVALID_ARGUMENT
        case "store" | "update" | "not-ready":
            code = Code.UNAVAILABLE
        case _:
            assert_never(refusal.kind)
    return Answer(Refuse(code, f"cri-proxy: {refusal.text}"))
