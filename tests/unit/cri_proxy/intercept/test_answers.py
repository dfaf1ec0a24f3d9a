from typing import get_args

import pytest

from cri_proxy.http2.status import Failed
from cri_proxy.intercept.answers import refused, took_effect
from cri_proxy.node.coordinator import Refusal, RefusalKind
from cri_proxy.relay.calls import Aborted, Outcome, Refuse, Replied

RESOURCE_EXHAUSTED, FAILED_PRECONDITION, INVALID_ARGUMENT, UNAVAILABLE = 8, 9, 3, 14


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("full", RESOURCE_EXHAUSTED),
        ("strict", FAILED_PRECONDITION),
        ("annotation", INVALID_ARGUMENT),
        ("cdi", FAILED_PRECONDITION),
        ("store", UNAVAILABLE),
        ("update", UNAVAILABLE),
        ("not-ready", UNAVAILABLE),
    ],
)
def test_every_refusal_has_its_status_and_says_who_refuses(kind: RefusalKind, code: int) -> None:
    assert refused(Refusal(kind, "no room")).verdict == Refuse(code, "cri-proxy: no room")


@pytest.mark.parametrize("kind", get_args(RefusalKind))
def test_nobody_hears_of_the_outcome_of_a_refused_call(kind: RefusalKind) -> None:
    assert refused(Refusal(kind, "")).finish is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Replied(b""), True), (Failed(5, "not found"), True), (Failed(2, "busy"), False), (Aborted(sent=True), False)],
)
def test_a_stop_is_done_when_the_runtime_says_so_or_knows_nothing_of_it(outcome: Outcome, expected: bool) -> None:
    assert took_effect(outcome) is expected
