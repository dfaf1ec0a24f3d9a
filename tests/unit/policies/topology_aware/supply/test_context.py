from dataclasses import FrozenInstanceError

import pytest

from tests.unit.policies.build import context_of, four_nodes, request, tree_of


def test_a_case_cannot_be_changed_on_the_way() -> None:
    context = context_of(tree_of(four_nodes()), request())
    with pytest.raises(FrozenInstanceError):
        context.others = ()  # type: ignore[misc]  # the point
