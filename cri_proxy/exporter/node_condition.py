"""Keep a condition of the Node: whether cri-proxy decides there, and whether the configuration in force is the file's.

Source: NodeCondition of core/v1; conditions are merged by their type (strategic merge patch).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cri_proxy.clock import Clock
from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.foreign_text import visible
from cri_proxy.http.call import Unreachable
from cri_proxy.kube_api.client import MERGE_PATCH, ApiClient, ApiRefused
from cri_proxy.kube_api.nodes import CONDITION, REJECTED, with_digest

BEAT_SECONDS: Final = 300.0
"""How often the condition is written though nothing has changed: its heartbeat."""
PATIENCE: Final = 3
"""Looks in vain until a daemon counts as away: one that is replaced is away for a moment."""
_READY: Final = "/readyz?format=json"
_STATE: Final = "/api/v1/config-state"
_MESSAGE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class ConditionText:
    """The content of the condition."""

    is_ready: bool
    reason: str
    message: str


class NodeConditionPart:
    """Looks at the daemon's health and at its last reload."""

    name = "node condition"

    def __init__(self, daemon: AdminClient, api: ApiClient, clock: Clock, node: str = "") -> None:
        """``node`` is the Node's name; '' = as the daemon says, once it answers."""
        self._daemon = daemon
        self._api = api
        self._clock = clock
        self._node = node
        self._in_vain = 0
        self._said: ConditionText | None = None
        self._changed = ""  # when the status changed last, as the API server has it
        self._next_beat_seconds = 0.0

    async def step(self) -> None:
        """Write the condition if it has changed, or is due. Raises as ``ExporterPart.step`` does."""
        found = await self._look()
        now_seconds = self._clock.monotonic_seconds()
        if found == self._said and now_seconds < self._next_beat_seconds:
            return
        path = f"/api/v1/nodes/{self._node}/status"
        if self._said is None:
            self._said, self._changed = await self._before(path)
        now = _time(self._clock.now_seconds())
        # lastTransitionTime is that of the status alone: another reason or message is no transition.
        is_same = self._said is not None and self._said.is_ready == found.is_ready
        changed = self._changed if is_same and self._changed else now
        await self._api.send("PATCH", path, _patch(found, now, changed), MERGE_PATCH)
        # Not before: a write that fails is made again at the next step.
        self._said, self._changed, self._next_beat_seconds = found, changed, now_seconds + BEAT_SECONDS

    async def _look(self) -> ConditionText:
        """Return what the daemon says; it is away after PATIENCE looks."""
        try:
            health, state = await self._daemon.object_at(_READY), await self._daemon.object_at(_STATE)
        except Unreachable as error:
            self._in_vain += 1
            is_away = self._in_vain >= PATIENCE
            # Without a name there is no Node to write to; and a daemon that may be about to start is no news yet.
            if not self._node or (self._said is None and not is_away):
                raise
            if self._said is not None and not is_away:
                return self._said
            return ConditionText(False, "DaemonAway", visible(str(error)))
        self._in_vain = 0
        self._node = self._node or str(state.get("node", ""))
        return finding_of(health, state)

    async def _before(self, path: str) -> tuple[ConditionText | None, str]:
        """Return what the condition said before this process, and since when; None where there is none."""
        node = await self._api.get(path)
        if node is None:
            raise ApiRefused(f"GET {path}", 404, "NotFound", f"no Node {self._node!r}: --node-name names another")
        status = node.get("status")
        conditions = status.get("conditions") if isinstance(status, Mapping) else None
        for each in conditions if isinstance(conditions, list) else ():
            if isinstance(each, Mapping) and each.get("type") == CONDITION:
                said = ConditionText(each.get("status") == "True", str(each.get("reason")), str(each.get("message")))
                return said, str(each.get("lastTransitionTime") or "")
        return None, ""


def finding_of(health: Mapping[str, object], state: Mapping[str, object]) -> ConditionText:
    """Return what the condition says of this health, and this state of the configuration."""
    if health.get("is_ready") is not True:
        problems = health.get("problems")
        text = "; ".join(map(str, problems)) if isinstance(problems, list) and problems else "it does not decide"
        return ConditionText(False, "NotReady", _cut(text))
    if state.get("rejected"):
        digest = str(state.get("rejected_digest") or "")
        return ConditionText(False, REJECTED, _cut(with_digest(digest, f"is rejected: {state['rejected']}")))
    digest = str(state.get("digest") or "")
    text = (
        "is in force: containers are placed by it" if digest else "containers are placed by the configuration in force"
    )
    return ConditionText(True, "Ready", with_digest(digest, text))


def _patch(found: ConditionText, now: str, changed: str) -> dict[str, object]:
    condition = {
        "type": CONDITION,
        "status": str(found.is_ready),
        "reason": found.reason,
        "message": found.message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": changed,
    }
    return {"status": {"conditions": [condition]}}


def _cut(text: str) -> str:
    # errors="ignore", as the cut may go through a character.
    return visible(text).encode()[:_MESSAGE_BYTES].decode(errors="ignore")


def _time(at_seconds: float) -> str:
    return datetime.fromtimestamp(at_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
