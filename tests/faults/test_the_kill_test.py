"""The kill test sees what it is there for: daemons with a bug each (``mutants``) lose something, the daemon does not.

For each mutant a point is named at which its bug shows in one of the first histories: in which one, changes with the
policy. Nothing is killed elsewhere.
"""

import pytest

from tests.faults.kill import Tally, kill_one_history
from tests.faults.mutants import MUTANTS, Mutant
from tests.faults.observed import AS_THEY_ARE, Parts

SHOWS = {
    "AnswersBeforeTheDisk": "start: own ListPodSandbox: acted",
    "DropsTheDoubt": "re-plan: save announced: durable",
    "DropsTheAnnouncement": "save confirmed: durable",
    "ForgetsWhatIsConfirmed": "nothing under way",
    "ForgetsDecisions": "save sandbox: asked",
    "NeverDeletes": "start: own ListPodSandbox: acted",
    "ConfirmsBeforeTheReply": "CreateContainer: reply seen",
    "DoesNotHoldStarts": "StartContainer: reply seen",
    "TakesUnknownForRefused": "start: own ListPodSandbox: sent",
    "ReleasesBeforeTheReply": "RemoveContainer: sent",
    "LosesTheIdOfACreated": "start: own ListPodSandbox: sent",
}


SEEDS = range(1, 41)


def losses(seed: int, point: str, parts: Parts) -> list[str]:
    tally = Tally()
    kill_one_history(seed, tally, parts=parts, only=(point,))
    return tally.losses


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_daemon_with_a_bug_is_caught_and_one_without_it_is_not(mutant: Mutant) -> None:
    point = SHOWS[mutant.name]
    seed = next((seed for seed in SEEDS if losses(seed, point, mutant.parts)), None)
    assert seed is not None, f"the bug does not show at {point!r}"
    assert losses(seed, point, AS_THEY_ARE) == []


def test_every_bug_has_a_place_where_it_shows() -> None:
    assert SHOWS.keys() == {mutant.name for mutant in MUTANTS}
