"""A changed configuration on a real runtime: the kernel's cpusets follow, and nobody is restarted."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cri_proxy.cli.check_config import check
from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.node.status.model import ConfigurationView, ReloadView
from sysfs.cpuset import CpuSet
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus
from tests.fakes.kubelet_volume import KubeletVolume
from tests.testbed.child import run
from tests.testbed.wait import until

SHARED = ContainerSpec("c0", cpu_request_mcpu=100)


class Mounted:
    """The configuration as a mounted ConfigMap, which the test changes as the kubelet would."""

    def __init__(self, directory: Path, two: TwoCpus) -> None:
        self.volume = KubeletVolume(directory)
        self.own = f'availableResources: {{cpu: "cpuset:{two.both}"}}\n'
        self.write()

    def write(self, more: str = "") -> None:
        self.volume.write({"default.yaml": self.own + more})

    def reserve(self, cpus: object) -> None:
        self.write(f'reservedResources: {{cpu: "cpuset:{cpus}"}}\n')


@pytest.fixture(scope="module")
def mounted(two: TwoCpus) -> Iterator[Mounted]:
    with tempfile.TemporaryDirectory(prefix="cri-proxy-e2e-", dir="/tmp") as directory:
        yield Mounted(Path(directory) / "config", two)


@pytest.fixture(scope="module")
def options(mounted: Mounted) -> tuple[str, ...]:
    """Nothing but the file decides."""
    return ("--config", str(mounted.volume.directory))


async def configuration(stage: Stage) -> ConfigurationView:
    found = (await stage.daemon.admin.status()).configuration
    assert found is not None
    return found


async def reloaded(stage: Stage, outcome: str, act: Callable[[], None]) -> ReloadView:
    """Do this, and wait for the reload that follows; it must have this outcome."""
    before = (await configuration(stage)).last
    act()

    async def is_new() -> ReloadView | None:
        last = (await configuration(stage)).last
        return last if last != before else None

    last = await until("a reload", is_new, seconds=SETTLE_SECONDS)
    assert last.outcome == outcome, last.reason
    return last


@pytest.fixture(autouse=True)
async def as_at_start(stage: Stage, mounted: Mounted) -> AsyncIterator[None]:
    """Each test begins with the configuration of the start in force."""
    yield
    mounted.write()

    async def is_back() -> bool:
        digest = ConfigLocation(mounted.volume.directory).read().digest
        found = await configuration(stage)
        return found.digest == digest and (found.last is None or found.last.outcome != "rejected")

    await until("the first configuration is back", is_back, seconds=SETTLE_SECONDS)


async def started_at(stage: Stage, pod: RunningPod) -> int:
    return int((await stage.direct.status(pod.container_id("c0"))).status.started_at)


async def test_reserving_a_cpu_takes_it_from_who_shares_it_without_a_restart(
    stage: Stage, two: TwoCpus, mounted: Mounted
) -> None:
    pods = [await stage.run("a", SHARED), await stage.run("b", SHARED)]
    assert [await stage.cpus(pod) for pod in pods] == [two.both] * 2
    since = [await started_at(stage, pod) for pod in pods]
    await reloaded(stage, "applied", lambda: mounted.reserve(two.low))
    for pod in pods:
        await stage.gets(pod, CpuSet.of((two.high,)))
    await reloaded(stage, "applied", mounted.write)
    for pod in pods:
        await stage.gets(pod, two.both)
    assert [await started_at(stage, pod) for pod in pods] == since


async def test_what_takes_a_containers_own_cpu_is_refused_with_its_name(
    stage: Stage, two: TwoCpus, mounted: Mounted
) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    before = await stage.cpus(alone)
    assert len(before) == 1
    last = await reloaded(stage, "rejected", lambda: mounted.reserve(two.both))
    assert "alone/c0" in last.reason
    assert await stage.cpus(alone) == before


async def test_an_invalid_one_changes_no_cpuset_and_status_says_why(stage: Stage, mounted: Mounted) -> None:
    pod = await stage.run("a", SHARED)
    before = await stage.cpus(pod)
    last = await reloaded(stage, "rejected", lambda: mounted.write("reservedResource: {cpu: 1}\n"))
    assert last.reason.endswith("default.yaml:2: reservedResource: unknown option; did you mean reservedResources?")
    assert await stage.cpus(pod) == before


async def test_reloads_under_traffic_lose_no_call_and_no_container(
    stage: Stage, two: TwoCpus, mounted: Mounted
) -> None:
    done = asyncio.Event()
    made = {"a": 0, "b": 0}

    async def churn(name: str) -> None:
        while not done.is_set():
            pod = await stage.run(f"{name}{made[name]}", SHARED)
            await stage.kubelet.remove_pod(pod.sandbox_id)
            made[name] += 1

    async def reload() -> None:
        rounds = 0
        try:
            while rounds < 3 or min(made.values()) < 2:  # on, until both have had their share of it
                await reloaded(stage, "applied", lambda: mounted.reserve(two.low))
                await reloaded(stage, "applied", mounted.write)
                rounds += 1
        finally:
            done.set()

    stays = await stage.run("stays", SHARED)
    await asyncio.gather(churn("a"), churn("b"), reload())
    await stage.gets(stays, two.both)
    assert await stage.direct.sandboxes() == (stays.sandbox_id,)


async def test_sighup_applies_it_again_and_ends_nothing(stage: Stage) -> None:
    pod = await stage.run("a", SHARED)
    before = await stage.cpus(pod)
    assert (await reloaded(stage, "applied", lambda: stage.daemon.send(signal.SIGHUP))).is_asked
    assert await stage.cpus(pod) == before


@contextmanager
def bound(source: Path, target: Path) -> Iterator[None]:
    """What a runtime does for a volumeMount with subPath."""
    run(("mount", "--bind", str(source), str(target)), seconds=10)
    try:
        yield
    finally:
        run(("umount", str(target)), seconds=10)


def test_what_is_mounted_with_subpath_is_told_by_the_kernels_own_words(tmp_path: Path) -> None:
    volume = KubeletVolume(tmp_path / "volume")
    volume.write({"default.yaml": "adopt: pin"})
    (tmp_path / "c.yaml").touch()
    place = ConfigLocation(tmp_path / "c.yaml")
    with bound(tmp_path / "volume" / "default.yaml", place.path):
        assert "mounted with subPath" in check(place.path, tmp_path / "nobody", machine="{cores: 2}").warnings[0]
        for text in ("adopt: pin", "adopt: leave"):
            volume.write({"default.yaml": text})
            (warning,) = place.read().warnings
            assert "is mounted with subPath, which Kubernetes never updates" in warning
            assert place.read().text == "adopt: pin"
    assert ConfigLocation(tmp_path / "volume").read().warnings == ()


WITHOUT_INOTIFY = """
import sys
from pathlib import Path
from cri_proxy.in_force.inotify import Inotify

limit, directory = Path(sys.argv[1]), Path(sys.argv[2])
notices = Inotify(lambda: None)
limit.write_text("0")
print(notices.follow({directory: frozenset({"c.yaml"})}))
limit.write_text("100")
print(notices.follow({directory: frozenset({"c.yaml"})}) or "follows")
notices.close()
"""


@pytest.mark.parametrize("limit", ["instance", "watch"])
def test_a_limit_of_inotify_is_told_and_tried_again(tmp_path: Path, limit: str) -> None:
    """The limits are those of a user namespace made for this: others keep theirs (namespaces(7), /proc/sys/user)."""
    file = f"/proc/sys/user/max_inotify_{limit}{'s' if limit == 'instance' else 'es'}"
    words = ("unshare", "-Ur", sys.executable, "-c", WITHOUT_INOTIFY, file, str(tmp_path))
    told, then = run(words, seconds=30).splitlines()
    assert told.startswith("inotify: ")
    assert told.endswith(f"fs.inotify.max_user_{limit}{'s' if limit == 'instance' else 'es'} is used up")
    assert then == "follows"
