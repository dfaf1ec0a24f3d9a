"""Whatever comes in whatever order, no node behind the canaries takes a content that one of them never had in force."""

import asyncio
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.files.agent import Payload
from cri_proxy.exporter.node_condition import finding_of
from cri_proxy.kube_api.nodes import ListedNode, ReportedState
from cri_proxy.rollout.cluster import ConfigMapName
from cri_proxy.rollout.gate import ClusterGate, RolloutRules
from tests.fakes.site import InstantClock, Silent

CONTENTS = (b"a", b"b", b"bad")
CANARIES = ("c1", "c2")
STEADY = 60.0
# A step: what happens, and to which of the two canaries, or with which content.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, len(CONTENTS) - 1)),
        st.tuples(st.sampled_from(["copy", "daemon", "export"]), st.integers(0, len(CANARIES) - 1)),
        st.tuples(st.just("look"), st.sampled_from([0, 30, 70])),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=15,
    max_size=40,
)


@dataclass
class Canary:
    """What its agent has copied, what its daemon has in force or rejects, and what was exported of that last."""

    copied: bytes = b"a"
    in_force: bytes = b"a"
    rejected: bytes = b""
    reported: ReportedState | None = None
    had: set[bytes] = field(default_factory=lambda: {b"a"})

    def take(self) -> None:
        self.rejected = self.copied if self.copied == b"bad" else b""
        if not self.rejected:
            self.in_force = self.copied
            self.had.add(self.copied)

    def export(self) -> None:
        state = {"digest": digest(self.in_force)}
        if self.rejected:
            state = {"rejected": "no", "rejected_digest": digest(self.rejected)}
        found = finding_of({"is_ready": True}, state)
        self.reported = ReportedState(found.is_ready, found.reason, found.message)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


class Fleet:
    """One node behind two canaries; it is the cluster that the node's gate asks."""

    node, config_map = "w1", ConfigMapName("kube-system", "cri-proxy")

    def __init__(self) -> None:
        self.clock = InstantClock()
        self.canaries = {name: Canary() for name in CANARIES}
        for canary in self.canaries.values():
            canary.export()
        self.mounted, self.copy = b"a", b"a"
        self.restart()

    def restart(self) -> None:
        rules = RolloutRules(("canary=true",), STEADY, 900.0)
        self.gate = ClusterGate(self, rules, clock=self.clock, log=Silent(), random=Random(1))  # type: ignore[arg-type]  # as RolloutCluster

    async def labels(self) -> dict[str, str]:
        return {}

    async def nodes(self, selector: str) -> tuple[ListedNode, ...]:
        return tuple(ListedNode(name, {}, (), canary.reported) for name, canary in self.canaries.items())

    async def tell_stopped(self, digest: str, cause: str, note: str, at_seconds: float) -> None:
        """Nothing is checked of it here."""

    async def look(self) -> None:
        payload = Payload((("default.yaml", self.mounted),))
        taken = await self.gate.admit(payload, {"default.yaml": self.copy})
        assert taken is not None
        content = dict(taken.files)["default.yaml"]
        if content != self.copy:
            assert content == self.mounted
            assert all(content in canary.had for canary in self.canaries.values())
        self.copy = content

    async def step(self, what: str, which: int) -> None:
        canary = self.canaries[CANARIES[which % len(CANARIES)]]
        match what:
            case "change":
                self.mounted = CONTENTS[which]
            case "copy":
                canary.copied = self.mounted
            case "daemon":
                canary.take()
            case "export":
                canary.export()
            case "look":
                await self.clock.sleep(which)
                await self.look()
            case "restart":
                self.restart()


@settings(max_examples=200)  # one takes some milliseconds
@given(STEPS)
def test_no_content_passes_that_a_canary_has_not_had_and_a_good_one_does_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    async def run() -> None:
        fleet = Fleet()
        for what, which in steps:
            await fleet.step(what, which)
        assert fleet.copy != b"bad"
        for what in ("copy", "daemon", "export"):
            for which in range(len(CANARIES)):
                await fleet.step(what, which)
        await fleet.look()
        await fleet.clock.sleep(STEADY)
        await fleet.look()
        assert fleet.mounted in (b"bad", fleet.copy)

    asyncio.run(run())
