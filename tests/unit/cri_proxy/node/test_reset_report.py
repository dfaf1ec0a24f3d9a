import pytest

from cri_proxy.node.reset import Outcome, ResetContainer, ResetReport
from policies.base import Pinning

ANY = Pinning(None, None)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [((), True), (("widened", "wide already", "opted out", "gone"), True), (("widened", "refused"), False)],
)
def test_a_reset_is_complete_when_nobody_is_left_pinned(outcomes: tuple[Outcome, ...], expected: bool) -> None:
    containers = tuple(ResetContainer("", "p", "c", "id", outcome, ANY, ANY) for outcome in outcomes)
    assert ResetReport(ANY, containers, 0, is_dry=False).is_complete is expected
