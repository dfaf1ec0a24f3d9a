"""One request in its circumstances."""

from dataclasses import FrozenInstanceError

import pytest

from tests.unit.policies.build import case_of, four_nodes, request, tree_of


def test_a_case_cannot_be_changed_on_the_way() -> None:
    case = case_of(tree_of(four_nodes()), request())
    with pytest.raises(FrozenInstanceError):
        case.others = ()  # type: ignore[misc]  # the point
