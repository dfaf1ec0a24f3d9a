"""What is heard of reloads."""

from cri_proxy.node.decision_log.journal import Journal
from tests.fakes.clock import ManualClock
from tests.fakes.site import Silent


class Heard(Journal):
    """A journal that keeps the fields of what was noted, by event."""

    def __init__(self) -> None:
        super().__init__(Silent(), ManualClock())
        self._fields: dict[str, list[dict[str, object]]] = {}

    def noted(self, event: str, **fields: object) -> None:
        self._fields.setdefault(event, []).append(fields)

    def fields(self, event: str) -> dict[str, object]:
        """Those of what was noted last."""
        return self._fields[event][-1]

    def all(self, event: str) -> list[dict[str, object]]:
        return self._fields.get(event, [])
