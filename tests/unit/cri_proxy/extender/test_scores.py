from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

from cri_proxy.extender.scores import NodeScores, RecentlyUsed
from policies.devices.links import link_annotation
from tests.unit.policies.devices.links.machines import kep_690

KEP = link_annotation(kep_690())


def test_the_score_is_that_of_the_kep_unrounded() -> None:
    scores = NodeScores()
    assert scores.exact(KEP, (2,)) == Fraction(100, 9)
    assert scores.exact(KEP, (1,)) == 0


def test_containers_are_scored_on_what_those_before_them_leave_by_their_pairs() -> None:
    """There is a pair with two links for each, so that both have their best."""
    assert NodeScores().exact(KEP, (2, 2)) == Fraction(100 * (200 + 200), 2 * 1800)


def test_too_few_gpus_and_words_that_cannot_be_read_have_no_score() -> None:
    scores = NodeScores()
    assert scores.exact(KEP, (4, 5)) is None
    assert scores.exact("v9", (2,)) is None
    assert scores.links("v9").matrix is None
    assert scores.links("v9").problem.startswith("'v9': expected the version v1")
    assert scores.links(KEP).gpus == 8


def test_what_was_scored_once_is_known() -> None:
    scores = NodeScores()
    assert not scores.is_known(KEP, (2,))
    scores.exact(KEP, (2,))
    assert scores.is_known(KEP, (2,))
    assert not scores.is_known(KEP, (3,))


def test_of_results_the_last_used_are_kept() -> None:
    asked: list[int] = []

    def doubled(number: int) -> int:
        asked.append(number)
        return 2 * number

    kept = RecentlyUsed(doubled, 2)
    assert [kept[number] for number in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert asked == [1, 2, 3, 2]


def test_threads_may_ask_at_once() -> None:
    scores = NodeScores()
    words = [f"v1.0t1.ux2.v{links}" for links in range(1, 40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda word: scores.exact(word, (2,)), words * 8))
    assert found == [Fraction(100 * 100 * min(links, 18), 1800) for links in range(1, 40)] * 8
