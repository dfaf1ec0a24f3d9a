"""Cost files of a daemon that serves: hostile ones, changes under load, and a kill before a bad one is put right."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.in_force.watch import DEBOUNCE_SECONDS
from cri_proxy.node.status.model import CostFilesView
from tests.restart.place import SECONDS, Place
from tests.testbed.wait import until

GPUS = "a.com/gpu/gpu0-3: {10: [cpu/cpu0-31]}\n"
NICS = "b.com/nic/nic0: {5: [cpu/cpu0-31]}\n"


def asking(pod: str, count: int) -> PodSpec:
    annotations = (("cri-proxy.io/device-request", f"a.com/gpu={count}"),)
    return PodSpec(pod, (guaranteed("c", 1000),), annotations=annotations)


class Announcing:
    """The place's daemon with a directory of cost files that plugins write to."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.directory = place.directory / "costs.d"
        self.config = place.directory / "cri-proxy.yaml"
        self.config.write_text(f"costs: {{dir: {self.directory}}}\n")

    async def start(self) -> None:
        self.place.daemon = self.place.new_daemon("--config", str(self.config))
        await self.place.daemon.start()

    def announce(self, name: str, text: str) -> None:
        self.directory.mkdir(mode=0o755, exist_ok=True)
        temporary = self.directory / f".{name}.new"
        temporary.write_text(text)
        temporary.chmod(0o644)
        temporary.rename(self.directory / name)

    async def keeps_changing(self, texts: Iterator[str]) -> None:
        """Write one after the other, each for long enough to be read on a quiet machine."""
        for text in texts:
            self.announce("gpu.yaml", text)
            await asyncio.sleep(3 * DEBOUNCE_SECONDS)

    async def costs(self) -> CostFilesView:
        costs = (await self.place.status()).costs
        assert costs is not None
        return costs

    async def listed(self) -> dict[str, int]:
        return {each.kind: each.present for each in (await self.place.status()).devices}

    async def held(self, pod: str) -> set[str]:
        """The devices that a pod holds."""
        holders = [holder for each in (await self.place.status()).devices for holder in each.holders]
        return {name for holder in holders if holder.container.split("/")[1] == pod for name in holder.devices}

    async def lists(self, devices: dict[str, int]) -> None:
        async def it_does() -> bool:
            return await self.listed() == devices

        await until(f"status shows {devices}", it_does, seconds=SECONDS)


@pytest.fixture
async def scene(place: Place) -> AsyncIterator[Announcing]:
    await place.daemon.stop()
    scene = Announcing(place)
    await scene.start()
    yield scene


async def test_what_a_plugin_announces_is_shown_until_its_file_is_gone(scene: Announcing) -> None:
    await scene.lists({})
    scene.announce("gpu.yaml", GPUS)
    scene.announce("nic.json", '{"b.com/nic/nic0": {"5": ["cpu/cpu0-31"]}}')
    await scene.lists({"a.com/gpu": 4, "b.com/nic": 1})
    (scene.directory / "gpu.yaml").unlink()
    await scene.lists({"b.com/nic": 1})


async def test_the_next_container_gets_an_announced_device_and_none_that_is_withdrawn(scene: Announcing) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 4})
    async with scene.place.kubelet() as kubelet:
        await kubelet.run_pod(asking("a", 3))
        held = await scene.held("a")
        assert len(held) == 3
        (scene.directory / "gpu.yaml").unlink()
        await scene.lists({"a.com/gpu": 0})
        with pytest.raises(CallFailed, match=r"a\.com/gpu"):
            await kubelet.run_pod(asking("b", 1))
        assert await scene.held("a") == held
        scene.announce("gpu.yaml", GPUS)
        await scene.lists({"a.com/gpu": 4})
        await kubelet.run_pod(asking("c", 1))
        assert await scene.held("c") == {f"a.com/gpu/gpu{i}" for i in range(4)} - held


async def test_hostile_files_cost_nobody_anything(scene: Announcing) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 4})
    os.mkfifo(scene.directory / "a.yaml")
    with (scene.directory / "b.yaml").open("wb") as file:
        file.truncate(100 << 20)
    scene.announce("c.yaml", "[" * 100_000)
    scene.announce("d.yaml", "a: &a [x, x, x, x]\n" + "".join(f"k{i}: [*a, *a]\n" for i in range(100_000)))
    scene.announce("e.yaml", "a.com/gpu/gpu0-3: {11: [cpu/cpu0-31]}\n")
    scene.announce("f.yaml", "".join(f"x.com/{i}/y0-8191: {{1: [z.com/z/z0-8191]}}\n" for i in range(500)))
    scene.announce("g.yaml", NICS)
    await scene.lists({"a.com/gpu": 4, "b.com/nic": 1})
    costs = await scene.costs()
    assert {f.name for f in costs.report.files if f.state == "rejected"} == {f"{name}.yaml" for name in "abcdef"}
    assert {f.name for f in costs.report.files if f.state == "in_force"} == {"g.yaml", "gpu.yaml"}
    assert await scene.place.daemon.admin.decides()
    await scene.place.run_pods(4)


async def test_changes_under_load_move_nobody_and_lose_no_call(scene: Announcing) -> None:
    texts = itertools.cycle((GPUS, "a.com/gpu/gpu0: [", f"{GPUS}a.com/gpu/gpu4-7:\n"))
    changing = asyncio.get_running_loop().create_task(scene.keeps_changing(texts))
    pods = await scene.place.run_pods(40)
    assert len(pods) == 40
    pinned, updates = scene.place.pinned(), len(scene.place.runtime.updates)
    before = await scene.costs()

    async def all_was_tried() -> bool:
        now = await scene.costs()
        return now.report.applied > before.report.applied and now.report.rejected > before.report.rejected

    await until("files were taken and rejected", all_was_tried, seconds=SECONDS)
    changing.cancel()
    assert (scene.place.pinned(), len(scene.place.runtime.updates)) == (pinned, updates)
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 4})


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
async def test_a_restart_with_a_bad_file_goes_on_with_what_it_said_last(
    scene: Announcing, ending: signal.Signals
) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 4})
    saved = scene.place.directory / "state" / "cost-files-in-force.json"

    async def it_is_saved() -> bool:
        return saved.exists() and "gpu0-3" in saved.read_text()

    await until("it is saved", it_is_saved, seconds=SECONDS)
    scene.announce("gpu.yaml", "")
    await scene.place.daemon.stop(ending)
    await scene.start()
    await scene.lists({"a.com/gpu": 4})
    assert [(f.name, f.state) for f in (await scene.costs()).report.files] == [("gpu.yaml", "kept")]
    scene.announce("gpu.yaml", "a.com/gpu/gpu0:\n")
    await scene.lists({"a.com/gpu": 1})
