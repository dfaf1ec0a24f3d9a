"""What the policy has answered to recorded histories of nodes with devices it answers again, to the last word."""

import pytest

from tests.golden.device_histories import FOLDER, MACHINES, told


@pytest.mark.parametrize("machine", MACHINES)
def test_a_recorded_history_with_devices_is_answered_as_before(machine: str) -> None:
    """After a change on purpose ``python -m tests.golden.device_histories`` records them again."""
    assert told(machine).splitlines() == (FOLDER / f"{machine}.txt").read_text().splitlines()


def test_no_recorded_history_with_devices_is_left_over() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(MACHINES)
