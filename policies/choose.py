"""The one question of devices that go well together: "choose k of a set, these included"."""

from collections.abc import Sequence
from typing import Protocol


class Chooser(Protocol):
    """Knows which devices go well together: by their links, their costs, or their place on the machine."""

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none.

        ``included`` is part of ``available``. Source: GetPreferredAllocation of the device plugin API.
        """
