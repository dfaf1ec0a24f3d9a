"""The runtime is asked over a channel whose answers, losses and silence the test sets."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.errors import RuntimeUnavailable, UnreadableReply
from cri_proxy.node.runtime_cdi import PAUSE_SECONDS, RuntimeCdi, support_by
from cri_proxy.runtime.cdi_support import CdiWay, Choice
from tests.fakes.clock import ManualClock
from tests.fakes.site import Site


@dataclass
class Answers:
    """Implements ``RuntimeChannel`` for ``Version`` and ``Status``."""

    version: str = "1.6.20"
    config: str = "{}"
    lost: int = 0
    is_silent: bool = False
    asked: list[str] = field(default_factory=list)

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        self.asked.append(method.rpartition("/")[2])
        if self.is_silent:
            raise RuntimeUnavailable(method, "no answer within 2 s")
        if method.endswith("Version"):
            return pb.VersionResponse(runtime_name="containerd", runtime_version=self.version).SerializeToString()
        assert pb.StatusRequest.FromString(message).verbose
        return pb.StatusResponse(info={"config": self.config}).SerializeToString()

    def losses(self) -> int:
        return self.lost

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        raise AssertionError(method)
        yield b""

    async def close(self) -> None:
        """Nothing is open."""


class Stage:
    def __init__(self, site: Site, choice: Choice = "auto") -> None:
        self.channel, self.clock = Answers(), ManualClock()
        self.rules = Config(cdi=choice)
        context = replace(site.node.context, channel=self.channel, clock=self.clock)
        self.cdi = RuntimeCdi(context, lambda: self.rules)


async def test_a_runtime_is_asked_once_and_again_after_each_restart(site: Site) -> None:
    stage = Stage(site)
    assert [await stage.cdi.known_way() for _ in range(2)] == [CdiWay.RESOLVE] * 2
    assert stage.channel.asked == ["Version", "Status"]
    stage.channel.version, stage.channel.lost = "2.0.1", 1
    assert await stage.cdi.known_way() is CdiWay.FIELD
    assert stage.cdi.text() == "added by the runtime, by CRI's field (containerd 2.0.1 adds CDI devices)"


async def test_without_an_answer_it_is_not_asked_for_a_while_and_what_was_known_stays(site: Site) -> None:
    stage = Stage(site)
    stage.channel.is_silent = True
    await stage.cdi.look()
    await stage.cdi.look()
    assert stage.channel.asked == ["Version"]
    assert "the runtime did not answer" in stage.cdi.text()
    stage.channel.is_silent, stage.channel.version = False, "2.0.1"
    await stage.clock.advance(PAUSE_SECONDS)
    assert await stage.cdi.known_way() is CdiWay.FIELD
    stage.channel.is_silent, stage.channel.lost = True, 1
    assert await stage.cdi.known_way() is CdiWay.FIELD


async def test_what_cannot_be_read_is_no_answer() -> None:
    class Garbage(Answers):
        async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
            return b"\xff"

    with pytest.raises(UnreadableReply, match="cannot be read"):
        await support_by(Garbage())


async def test_the_choice_in_force_counts_at_once(site: Site) -> None:
    stage = Stage(site)
    await stage.cdi.look()
    stage.rules = Config(cdi="runtime")
    assert stage.cdi.way is CdiWay.FIELD
    assert stage.cdi.text() == (
        "added by the runtime, by CRI's field (cdi is runtime; containerd 1.6.20 ignores CDI names)"
    )
    assert stage.cdi.problems() == (
        "cdi is runtime, and containerd 1.6.20 ignores CDI names; update it to 2.0 or later",
    )


async def test_devices_of_the_kubelet_that_the_runtime_ignores_are_logged_as_soon_as_it_is_known(site: Site) -> None:
    stage = Stage(site)
    pod = await site.run("a", guaranteed("c", 1000))
    row = site.row(pod.container_id("c"))
    stage.cdi.note_asked(row, ["a.com/b=0"])  # not asked yet: nothing is known
    assert site.log.warnings == []
    await stage.cdi.look()
    stage.cdi.note_asked(row, [])
    assert site.log.warnings == []
    stage.cdi.note_asked(row, ["a.com/b=0", "a.com/b=1"])
    assert site.log.warnings == ["cdi_ignored"]


async def test_directories_that_only_the_runtime_reads_are_told(site: Site) -> None:
    stage = Stage(site)
    stage.channel.version, stage.channel.config = "2.0.1", '{"cdiSpecDirs": ["/opt/cdi"]}'
    await stage.cdi.look()
    (problem,) = stage.cdi.problems()
    assert "in /opt/cdi, and cri-proxy in /etc/cdi and /var/run/cdi" in problem
    stage.rules = Config(cdi="resolve")
    assert stage.cdi.problems() == ()


async def test_the_choice_of_a_runtime_that_adds_devices_is_no_problem(site: Site) -> None:
    stage = Stage(site, "runtime")
    stage.channel.version = "2.0.1"
    await stage.cdi.look()
    assert stage.cdi.problems() == ()
