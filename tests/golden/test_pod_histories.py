"""What the policy has answered to recorded histories of pods it answers again, to the last word."""

import pytest

from tests.golden.pod_histories import FOLDER, MACHINES, told


@pytest.mark.parametrize("machine", MACHINES)
def test_a_recorded_history_of_pods_is_answered_as_before(machine: str) -> None:
    """After a change on purpose ``python -m tests.golden.pod_histories`` records them again."""
    assert told(machine).splitlines() == (FOLDER / f"{machine}.txt").read_text().splitlines()


def test_no_recorded_history_of_pods_is_left_over() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(MACHINES)
