from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.steps import BUNCH, Steps, at_once, bunches


def counting(steps: int) -> Steps[int]:
    for _ in range(steps):
        yield
    return steps


@given(st.integers(0, 5))
def test_done_at_once_it_gives_its_result_however_many_steps_there_are(steps: int) -> None:
    assert at_once(counting(steps)) == steps


@given(st.integers(0, 4 * BUNCH))
def test_bunches_hold_every_item_once_in_order_and_never_more_than_a_steps_worth(count: int) -> None:
    found = [list(bunch) for bunch in bunches(range(count))]
    assert [item for bunch in found for item in bunch] == list(range(count))
    assert all(0 < len(bunch) <= BUNCH for bunch in found)
