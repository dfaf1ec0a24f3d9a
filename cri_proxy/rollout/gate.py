"""Decide on one node, with the cluster's help, which files of the mounted ConfigMap it takes now, and for which group.

Each node decides for itself, by what the canaries' Nodes report: there is no leader that could be away, and as all go
by the same reports, all decide the same. What cannot be asked changes nothing: the last group and the last files stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.files.agent import Payload
from cri_proxy.config.files.location import GROUP_FILE
from cri_proxy.config.node_group import group_of_labels
from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.logs import Log
from cri_proxy.rollout.canaries import CanaryResult, RolloutAction, judge
from cri_proxy.rollout.cluster import RolloutCluster
from cri_proxy.rollout.digests import digest_of_all

GO_ON: Final = "go-on"
"""The key of the ConfigMap that lets every node take this content: the first digits of its digest, as it was logged."""
LOOK_SECONDS: Final = 20.0
"""How often the label, and while something waits the canaries, are looked at; half as much is added at random."""
REPEAT_SECONDS: Final = 1800.0
"""How often what stays so is told again; an Event is kept for an hour (--event-ttl of kube-apiserver)."""
_CHANGE_SECONDS: Final = 60.0
"""How often other words for the same are told: what a node that is not ready reports may change all the time."""
_EVENT: Final = "event"
_LEAST_DIGITS: Final = 12
_REASON_BYTES: Final = 600

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """``canaries`` are label selectors: their nodes take a change in this order, before all others.

    The next ones go on when all of a selector's have had it in force for ``steady_seconds``; after ``most_seconds``
    without that, the rollout counts as stopped.
    """

    canaries: tuple[str, ...] = ()
    steady_seconds: float = 60.0
    most_seconds: float = 900.0


class ClusterGate:
    """The gate of a node; ``config.files.agent.Gate``."""

    def __init__(self, cluster: RolloutCluster, rules: RolloutRules, *, clock: Clock, log: Log, random: Random) -> None:
        """Ask nothing yet."""
        self._cluster = cluster
        self._rules = rules
        self._clock = clock
        self._log = log
        self._random = random
        self._group: str | None = None  # None: not known since this process began
        self._digest = ""  # of the content that waits, '' for none
        self._since_seconds = 0.0
        self._good_since_seconds: float | None = None
        self._told: dict[str, tuple[str, float]] = {}

    def wait_seconds(self) -> float:
        """Return how long to wait until the next look: many nodes ask one after the other."""
        return LOOK_SECONDS * self._random.uniform(1.0, 1.5)

    async def admit(self, payload: Payload, copy: Files | None) -> Payload | None:
        """Return what to write now, None where that is nothing. ``copy`` is what was written last, None for nothing."""
        wanted = _configurations(dict(payload.files))
        if not wanted:
            return Payload((), f"the ConfigMap {self._cluster.config_map} holds no configuration: the last copy stays")
        group = await self._group_now(copy)
        before = None if copy is None else _configurations(copy)
        taken = before if await self._is_held(wanted, before, dict(payload.files).get(GO_ON, b"")) else wanted
        if group is None or taken is None:
            return None
        files = {**taken, GROUP_FILE: f"{group}\n".encode()} if group else taken
        return Payload(tuple(sorted(files.items())))

    async def _group_now(self, copy: Files | None) -> str | None:
        """Return the group of the Node's label, else the last known one; None where there is none of either."""
        try:
            self._group = group_of_labels(await self._cluster.labels())
            self._told.pop(events.NODE_UNREAD, None)
        except (CriProxyError, ValueError) as error:
            if self._group is None and copy is not None:
                # After a restart the copy has the last group.
                self._group = copy.get(GROUP_FILE, b"").decode(errors="replace").strip()
            last = self._group
            stays = (
                "nothing is written until they are read" if last is None else f"the last group, {last or 'none'}, stays"
            )
            if self._is_news(events.NODE_UNREAD, str(error)):
                self._log.warning(events.NODE_UNREAD, node=self._cluster.node, reason=str(error), outcome=stays)
        return self._group

    async def _is_held(self, wanted: Files, before: Files | None, go_on: bytes) -> bool:
        digest = digest_of_all(wanted)
        # Before the cluster is asked, so that the key needs no API server.
        if wanted == before or not self._rules.canaries or _is_meant(go_on, digest):
            self._forget()
            return False
        now_seconds = self._clock.monotonic_seconds()
        if digest != self._digest:
            self._forget()
            # Other content: its canaries have all of their time.
            self._digest, self._since_seconds = digest, now_seconds
        result = await self._result(wanted)
        if result is None:
            self._forget()
            return False
        waited_seconds = now_seconds - self._since_seconds
        if result.action is not RolloutAction.GO:
            # Steady is without a break: one canary that falls back begins the time again.
            self._good_since_seconds = None
            await self._tell(result, waited_seconds)
            return True
        if self._good_since_seconds is None:
            self._good_since_seconds = now_seconds
        steady_seconds = self._rules.steady_seconds
        # A node without any files has nothing that could be kept.
        if before is None or now_seconds - self._good_since_seconds >= steady_seconds:
            self._forget()
            return False
        watched = f"the canaries have it in force, and are watched for {steady_seconds:g} s"
        await self._tell(CanaryResult(RolloutAction.WAIT, watched), 0.0)
        return True

    async def _result(self, wanted: Files) -> CanaryResult | None:
        """Return what the canaries before this node report, None where there are none: it is one of the first."""
        result: CanaryResult | None = None
        try:
            for selector in self._rules.canaries:
                canaries = await self._cluster.nodes(selector)
                if any(node.name == self._cluster.node for node in canaries):
                    return result
                result = judge(selector, canaries, wanted)
                if result.action is not RolloutAction.GO:
                    return result
        except CriProxyError as error:
            # An API server that does not answer holds the change up: the copy that was written before does no harm.
            return CanaryResult(RolloutAction.WAIT, f"the canaries' Nodes cannot be read: {error}")
        return result

    async def _tell(self, result: CanaryResult, waited_seconds: float) -> None:
        config_map, short = str(self._cluster.config_map), self._digest[:_LEAST_DIGITS]
        is_late = result.action is RolloutAction.WAIT and waited_seconds >= self._rules.most_seconds
        if result.action is RolloutAction.WAIT and not is_late:
            if self._is_news(events.CONFIG_HELD, result.reason):
                self._log.info(events.CONFIG_HELD, config_map=config_map, digest=short, reason=result.reason)
            return
        late = f"after {self._rules.most_seconds:g} s: " if is_late else ""
        reason, remedy = f"{late}{result.reason}", self._remedy(short)
        if self._is_news(events.CONFIG_STOPPED, reason):
            self._log.error(events.CONFIG_STOPPED, config_map=config_map, digest=short, reason=reason, remedy=remedy)
        # The log has all words; the cluster's store is spared what a canary reports in others every minute.
        if self._is_news(_EVENT, result.action.name):
            # An Event's note is cut at 1024 bytes, and the remedy stands at its end.
            note = f"other nodes keep the former configuration: {admit(reason, _REASON_BYTES)}; {remedy}"
            await self._write_event(result.action.name, note)

    async def _write_event(self, cause: str, note: str) -> None:
        try:
            await self._cluster.tell_stopped(self._digest, cause, note, self._clock.now_seconds())
        except CriProxyError as error:
            self._told[_EVENT] = ("", self._clock.monotonic_seconds())  # not told: tried again as other words are
            if self._is_news(events.NOT_EXPORTED, str(error)):
                self._log.warning(events.NOT_EXPORTED, what="event", reason=str(error))

    def _remedy(self, digest: str) -> str:
        """Return how to go back, and how to go on."""
        where = self._cluster.config_map
        patch = f'{{"data":{{"{GO_ON}":"{digest}"}}}}'
        go_on = f"kubectl -n {where.namespace} patch configmap {where.name} --type merge -p '{patch}'"
        return f"to go back, apply the former ConfigMap; to go on all the same: {go_on}"

    def _is_news(self, event: str, text: str) -> bool:
        """Return whether this was not told yet, or so long ago that it is told again."""
        now_seconds = self._clock.monotonic_seconds()
        told = self._told.get(event)
        if told is not None and now_seconds - told[1] < (REPEAT_SECONDS if told[0] == text else _CHANGE_SECONDS):
            return False
        self._told[event] = (text, now_seconds)
        return True

    def _forget(self) -> None:
        self._digest, self._good_since_seconds = "", None
        for event in (events.CONFIG_HELD, events.CONFIG_STOPPED, _EVENT):
            self._told.pop(event, None)


def _configurations(files: Files) -> dict[str, bytes]:
    """Return the files without what is about their rollout and about this node."""
    return {name: content for name, content in files.items() if name not in (GO_ON, GROUP_FILE)}


def _is_meant(go_on: bytes, digest: str) -> bool:
    """Return whether the value of ``go-on`` names this content, so that one that was forgotten lets nothing pass."""
    words = go_on.decode(errors="replace").strip()
    return len(words) >= _LEAST_DIGITS and digest.startswith(words)
