"""The kill test sees what it is there for: daemons with a bug each (``mutants``) lose something, the daemon does not.

For each mutant a history and a point are named at which its bug shows; nothing is killed elsewhere.
"""

import pytest

from tests.faults.kill import Tally, kill_one_history
from tests.faults.mutants import MUTANTS, Mutant
from tests.faults.observed import AS_THEY_ARE, Parts

SHOWS = {
    "AnswersBeforeTheDisk": (1, "start: own ListPodSandbox: acted"),
    "DropsTheDoubt": (3, "re-plan: save announced: durable"),
    "DropsTheAnnouncement": (3, "save confirmed: durable"),
    "ForgetsWhatIsConfirmed": (1, "nothing under way"),
    "ForgetsDecisions": (1, "save sandbox: asked"),
    "NeverDeletes": (1, "start: own ListPodSandbox: acted"),
    "ConfirmsBeforeTheReply": (1, "CreateContainer: reply seen"),
    "DoesNotHoldStarts": (1, "StartContainer: reply seen"),
    "TakesUnknownForRefused": (8, "start: own ListPodSandbox: sent"),
    "ReleasesBeforeTheReply": (4, "nothing under way"),
    "LosesTheIdOfACreated": (1, "start: own ListPodSandbox: sent"),
}


def losses(seed: int, point: str, parts: Parts) -> list[str]:
    tally = Tally()
    kill_one_history(seed, tally, parts=parts, only=(point,))
    assert point in tally.histories
    return tally.losses


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_daemon_with_a_bug_is_caught(mutant: Mutant) -> None:
    assert losses(*SHOWS[mutant.name], mutant.parts) != []


@pytest.mark.parametrize(("seed", "point"), sorted(set(SHOWS.values())))
def test_without_the_bug_nothing_is_lost_there(seed: int, point: str) -> None:
    assert losses(seed, point, AS_THEY_ARE) == []


def test_every_bug_has_a_place_where_it_shows() -> None:
    assert SHOWS.keys() == {mutant.name for mutant in MUTANTS}
