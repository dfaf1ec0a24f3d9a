from itertools import pairwise

import pytest

from policies.devices.links import Link, LinkMode, link_of, matrix_of, pair_points, points_between, set_points
from tests.unit.policies.devices.links.machines import kep_690


@pytest.mark.parametrize(
    ("word", "points"),
    [("SYS", 10), ("SOC", 10), ("NODE", 20), ("PHB", 30), ("PXB", 40), ("PIX", 50), ("PSB", 60), ("-", 0)],
)
def test_a_path_has_the_points_of_the_table(word: str, points: int) -> None:
    link = link_of(word)
    assert link is not None
    assert [pair_points(link, mode) for mode in LinkMode] == [points, points]


def test_nearer_paths_have_more_points_and_every_nvlink_more_than_any_path() -> None:
    points = [pair_points(Link(pcie=word)) for word in ("PSB", "PIX", "PXB", "PHB", "NODE", "SYS")]
    assert all(near > far for near, far in pairwise(points))
    assert pair_points(Link(1)) > points[0]


@pytest.mark.parametrize("links", [1, 2, 4, 6, 12, 18, 36])
def test_each_nvlink_is_worth_100_in_newer_generations_too(links: int) -> None:
    assert pair_points(Link(links)) == 100 * links


def test_both_kinds_of_links_add_up_unless_the_matrix_hides_one() -> None:
    assert pair_points(Link(2, "SYS"), LinkMode.SUM) == 210
    assert pair_points(Link(2, "SYS"), LinkMode.MATRIX) == 200
    assert pair_points(Link(0, "SYS"), LinkMode.MATRIX) == 10


def test_a_text_scores_the_same_in_both_modes() -> None:
    gpus = range(8)
    assert points_between(kep_690(), gpus, LinkMode.SUM) == points_between(kep_690(), gpus, LinkMode.MATRIX)


def test_points_are_by_position_and_a_set_has_those_of_all_its_pairs() -> None:
    matrix = matrix_of([[0, 1, 2], [1, 0, 4], [2, 4, 0]], ())
    points = points_between(matrix, (2, 0))
    assert points == [[0, 200], [200, 0]]
    assert set_points(points_between(matrix, (0, 1, 2)), (0, 1, 2)) == 700
    assert set_points(points, (1,)) == set_points(points, ()) == 0
