"""What is heard of reloads."""

from cri_proxy.node.decision_log.journal import Journal
from tests.fakes.clock import ManualClock
from tests.fakes.site import Silent


class Heard(Journal):
    """A journal that keeps the fields of what was noted last, by event."""

    def __init__(self) -> None:
        super().__init__(Silent(), ManualClock())
        self._fields: dict[str, dict[str, object]] = {}

    def noted(self, event: str, **fields: object) -> None:
        self._fields[event] = fields

    def fields(self, event: str) -> dict[str, object]:
        return self._fields[event]
