import pytest

from cri_proxy.metrics.catalog import CALLS, CALLS_IN_FLIGHT, MALFORMED
from cri_proxy.relay.boundary import _MAX_METHODS, Boundary, new_call
from cri_proxy.relay.calls import Call, Forward, Interest, Outcome, Refuse, Replied, Verdict


class Broken:
    def __init__(self) -> None:
        self.asked = 0

    def wants(self, method: str) -> Interest:
        self.asked += 1
        raise ValueError("wants")

    async def on_request(self, call: Call) -> Verdict:
        raise ValueError("on_request")

    async def stand_in(self, method: str) -> bytes | None:
        raise ValueError("stand_in")

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        raise ValueError("on_outcome")


@pytest.fixture
def errors() -> list[BaseException]:
    return []


def test_a_method_it_fails_to_judge_passes(errors: list[BaseException]) -> None:
    assert Boundary(Broken(), errors.append).wants("/m") is Interest.PASS
    assert [str(error) for error in errors] == ["wants"]


async def test_a_request_it_fails_to_judge_goes_on(errors: list[BaseException]) -> None:
    assert await Boundary(Broken(), errors.append).verdict(new_call("/m", b"")) == Forward()
    assert [str(error) for error in errors] == ["on_request"]


async def test_a_call_it_fails_to_stand_in_for_keeps_the_runtimes_answer(errors: list[BaseException]) -> None:
    assert await Boundary(Broken(), errors.append).stand_in("/m") is None
    assert [str(error) for error in errors] == ["stand_in"]


def test_an_outcome_it_fails_to_take_is_reported(errors: list[BaseException]) -> None:
    Boundary(Broken(), errors.append).outcome(new_call("/m", b""), Replied(b""))
    assert [str(error) for error in errors] == ["on_outcome"]


def test_it_is_asked_once_for_a_method(errors: list[BaseException]) -> None:
    broken = Broken()
    boundary = Boundary(broken, errors.append)
    for _ in range(3):
        boundary.wants("/m")
    assert broken.asked == 1


@pytest.mark.parametrize("path", ["", "m", "runtime.v1.RuntimeService/CreateContainer", "/\ufffd", "/" + "m" * 4095])
def test_what_is_no_method_is_refused_and_counted_and_nobody_is_asked(path: str, errors: list[BaseException]) -> None:
    broken = Broken()
    boundary = Boundary(broken, errors.append)
    assert boundary.wants(path) is Interest.REFUSE
    assert broken.asked == 0
    counts = {s.labels: s.value for s in boundary.traffic.samples() if s.metric is MALFORMED and s.value}
    assert counts == {("path",): 1}


def test_calls_have_numbers_of_their_own() -> None:
    assert new_call("/m", b"").id != new_call("/m", b"").id


class Refusing:
    """Refuses every call that it is asked about, and serves nothing of an old interface."""

    def wants(self, method: str) -> Interest:
        return Interest.REFUSE if "v1alpha2" in method else Interest.HOLD

    async def on_request(self, call: Call) -> Verdict:
        return Refuse(8, "full")

    async def stand_in(self, method: str) -> None:
        """For no call."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        raise AssertionError("never sent on")


async def test_what_is_asked_and_what_is_never_served_is_counted(errors: list[BaseException]) -> None:
    boundary = Boundary(Refusing(), errors.append)
    boundary.wants("/runtime.v1alpha2.RuntimeService/Version")
    boundary.wants("/runtime.v1alpha2.RuntimeService/Version")
    await boundary.verdict(new_call("/runtime.v1.RuntimeService/CreateContainer", b""))
    counts = {s.labels: s.value for s in boundary.traffic.samples() if s.metric is CALLS and s.value}
    assert counts == {("other", "UNIMPLEMENTED"): 2, ("CreateContainer", "RESOURCE_EXHAUSTED"): 1}


async def test_a_fault_of_the_interceptor_does_not_lose_the_count(errors: list[BaseException]) -> None:
    boundary, call = Boundary(Broken(), errors.append), new_call("/runtime.v1.RuntimeService/CreateContainer", b"")
    await boundary.verdict(call)
    in_flight = [s.value for s in boundary.traffic.samples() if s.metric is CALLS_IN_FLIGHT]
    assert in_flight == [1]
    boundary.outcome(call, Replied(b""))
    counts = {s.labels: s.value for s in boundary.traffic.samples() if s.metric is CALLS and s.value}
    assert counts == {("CreateContainer", "OK"): 1}


def test_the_number_of_methods_that_are_remembered_is_bounded(errors: list[BaseException]) -> None:
    broken = Broken()
    boundary = Boundary(broken, errors.append)
    for _ in range(2):
        for number in range(_MAX_METHODS + 1):
            boundary.wants(f"/s/{number}")
    assert broken.asked == _MAX_METHODS + 2
