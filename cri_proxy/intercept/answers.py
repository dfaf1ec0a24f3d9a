"""What the interceptor does with a request, and in which gRPC status a refusal is worded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from cri_proxy.http2.status import Code, Failed
from cri_proxy.node.coordinator import Refusal
from cri_proxy.relay.calls import Outcome, Refuse, Replied, Verdict

Finisher = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do with the request, and whom to tell what became of it."""

    verdict: Verdict
    finish: Finisher | None = None


def took_effect(outcome: Outcome) -> bool:
    """A stop or removal is done when the runtime says so, or does not know the thing any more."""
    return isinstance(outcome, Replied) or (isinstance(outcome, Failed) and outcome.code == Code.NOT_FOUND)


def refused(refusal: Refusal) -> Answer:
    """The answer that refuses a call: RESOURCE_EXHAUSTED and UNAVAILABLE are worth another try, the others are not."""
    match refusal.kind:
        case "full":
            code = Code.RESOURCE_EXHAUSTED
        case "strict":
            code = Code.FAILED_PRECONDITION
        case "annotation":
            code = Code.INVALID_ARGUMENT
        case "store" | "update" | "not-ready":
            code = Code.UNAVAILABLE
        case _:
            assert_never(refusal.kind)
    return Answer(Refuse(code, f"cri-proxy: {refusal.text}"))
