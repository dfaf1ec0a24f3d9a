"""Ten thousand random steps: after every one of them the invariants hold, the model agrees, the kernel is as told.

What goes in: seeds, each of which tells a machine and a history. Nothing is mocked. ``python -m tests.property.soak``
plays many more, and cuts a history that fails down to what makes it fail.
"""

import pytest

from tests.property.life import Kind, Life, live

LIVES = (
    *(Life(Kind.LARGE, seed, 150) for seed in range(28)),
    *(Life(Kind.SMALL, 1000 + seed, 200) for seed in range(21)),
    *(Life(Kind.NODE, 2000 + seed, 100) for seed in range(16)),
)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: f"{life.kind}-{life.seed}")
def test_no_step_of_a_life_breaks_a_rule(life: Life) -> None:
    assert live(life) == life.steps


def test_the_lives_have_ten_thousand_steps() -> None:
    """Each is held to its own number above."""
    assert sum(life.steps for life in LIVES) >= 10_000
    assert {life.kind for life in LIVES} == set(Kind)
