import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.model import Config
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.resource_files.directories import ContainerDirectory, list_directories
from cri_proxy.node.resource_files.updates import gets_files
from policies.base import CpuKind, Grant, Pinning
from policies.builder import build_policy
from policies.preferences import Preferences
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.grants import request, small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.resource_sites import files_of, generation, mounted, site_with_files, variables
from tests.unit.cri_proxy.node.stage import background, entered

OWNS_2 = guaranteed("c", 2000)
MIXED = guaranteed("c", 1500)
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
ALWAYS, NEVER = Config(resource_files="always"), Config(resource_files="never")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_with_files(tmp_path) as site:
        yield site


@pytest.mark.parametrize(
    ("owned", "pinned", "tell", "mode", "expected"),
    [
        ("1", True, None, "auto", True),
        ("", True, None, "auto", False),
        ("1", False, None, "auto", False),  # it owns CPUs that it is not pinned to
        ("1", True, False, "auto", False),
        ("", True, True, "auto", True),
        ("1", False, True, "auto", True),
        ("", True, None, "always", True),
        ("", True, False, "always", False),
        ("1", True, True, "never", False),
    ],
)
def test_who_is_told(owned: str, pinned: bool, tell: bool | None, mode: str, expected: bool) -> None:
    asked = replace(request("c", 1000), preferences=Preferences(resource_files=tell))
    grant = Grant(asked, "root", CpuKind.EXCLUSIVE if owned else CpuKind.SHARED, CpuSet.parse(owned))
    assert gets_files(grant, Pinning(CpuSet.parse("1") if pinned else None, None), mode) is expected


@pytest.mark.parametrize(("tell", "expected"), [(None, True), (False, False)])
def test_who_wants_to_hear_of_changes_is_told(tell: bool | None, expected: bool) -> None:
    asked = replace(request("c", 100), preferences=Preferences(resource_files=tell, notify=("true",)))
    assert gets_files(Grant(asked, "root", CpuKind.SHARED), Pinning(None, None), "auto") is expected


async def test_a_container_with_cpus_of_its_own_finds_them_from_its_start(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    assert mounted(site, pod) == [(str(files_of(site, pod)), "/.cri-proxy")]
    assert variables(site, pod) == {
        "SHARED_CPUS": "",
        "ISOLATED_CPUS": "",
        "EXCLUSIVE_CPUS": "4-5",
        "ALL_MEMS": "1",
        "DRAM_MEMS": "1",
        "PMEM_MEMS": "",
        "HBM_MEMS": "",
        "DEVICES": "",
    }
    assert generation(site, pod) == 1


async def test_hidden_thread_siblings_are_told_apart_from_the_cpus_to_run_on(tmp_path: Path) -> None:
    machine = describe({"cores": 4, "threads": 2})
    site = Site(build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse("0-1"))))
    site.files_root = tmp_path
    await site.open()
    pod = await site.run("a", OWNS_2, **{"cri-proxy.io/hide-hyperthreads": "true"})
    plain = json.loads((files_of(site, pod) / "resources.json").read_text())
    assert (plain["exclusive_cpus"], plain["hidden_cpus"]) == ("2", "3")
    assert variables(site, pod)["EXCLUSIVE_CPUS"] == site.cpus(pod.container_id("c"))


async def test_a_pod_asks_by_annotation_for_one_of_its_containers(site: Site) -> None:
    other = replace(SHARES, name="d")
    pod = await site.run("a", SHARES, other, **{"cri-proxy.io/resource-files": "{c: true, d: false}"})
    assert [len(mounted(site, pod, name)) for name in ("c", "d")] == [1, 0]


async def test_the_files_are_there_before_the_runtime_is_asked(tmp_path: Path, site: Site) -> None:
    gate = site.runtime.faults.block("CreateContainer")
    creating = background(site.kubelet.run_pod(PodSpec("a", (OWNS_2,))))
    await entered(gate)
    assert len(list_directories(tmp_path)) == 1
    gate.release()
    assert variables(site, await creating)["EXCLUSIVE_CPUS"] == "4-5"


async def test_who_only_shares_is_not_told_unless_everybody_is(tmp_path: Path, site: Site) -> None:
    assert mounted(site, await site.run("a", SHARES)) == []
    assert list_directories(tmp_path) == ()
    site.node.coordinator.config = ALWAYS
    assert variables(site, await site.run("b", SHARES))["SHARED_CPUS"] == "1-3"


async def test_under_never_nobody_is_told(tmp_path: Path) -> None:
    async with site_with_files(tmp_path, rules=NEVER) as site:
        assert mounted(site, await site.run("a", OWNS_2)) == []


async def test_a_shared_set_that_shrinks_and_grows_is_told_each_time(site: Site) -> None:
    mixed, _ = await site.run("m", MIXED), await site.run("full", guaranteed("c", 3000))
    before = variables(site, mixed)
    owner = await site.run("a", OWNS_2)
    during = variables(site, mixed)
    await site.kubelet.remove_pod(owner.sandbox_id)
    await site.node.settle()
    sets = [CpuSet.parse(each["SHARED_CPUS"]) for each in (before, during, variables(site, mixed))]
    assert sets[1] <= sets[0] == sets[2] != sets[1]
    assert {each["EXCLUSIVE_CPUS"] for each in (before, during)} == {before["EXCLUSIVE_CPUS"]}
    assert generation(site, mixed) == 3


async def test_growth_is_told_once_the_runtime_has_confirmed_it(site: Site) -> None:
    mixed, _ = await site.run("m", MIXED), await site.run("full", guaranteed("c", 3000))
    wide = variables(site, mixed)["SHARED_CPUS"]
    owner = await site.run("a", OWNS_2)
    narrow = variables(site, mixed)["SHARED_CPUS"]
    gate = site.runtime.faults.block("UpdateContainerResources")
    await site.kubelet.remove_pod(owner.sandbox_id)
    await entered(gate)
    await site.node.resource_files.settle()
    assert variables(site, mixed)["SHARED_CPUS"] == narrow != wide
    gate.release()
    await site.node.settle()
    assert variables(site, mixed)["SHARED_CPUS"] == wide


async def test_a_resize_is_told(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    before = CpuSet.parse(variables(site, pod)["EXCLUSIVE_CPUS"])
    await site.kubelet.update(
        pod.container_id("c"), pb.LinuxContainerResources(cpu_quota=300_000, cpu_period=100_000, cpu_shares=3072)
    )
    await site.node.settle()
    after = CpuSet.parse(variables(site, pod)["EXCLUSIVE_CPUS"])
    assert (len(after), before <= after) == (3, True)


async def test_changes_that_do_not_concern_a_container_leave_its_files_alone(site: Site) -> None:
    owner = await site.run("a", OWNS_2)
    for name in ("b", "d", "e"):
        await site.run(name, SHARES)
    assert generation(site, owner) == 1
    assert site.node.resource_files.written == 1


def version(site: Site, pod: RunningPod) -> tuple[int, int]:
    """Which file it is, and when it was written last. Who reads it changes neither."""
    found = (files_of(site, pod) / "resources.sh").stat()
    return found.st_ino, found.st_mtime_ns


async def test_a_restart_of_the_proxy_writes_nothing_that_is_right(site: Site) -> None:
    mixed, owner = await site.run("m", MIXED), await site.run("a", OWNS_2)
    before = [version(site, pod) for pod in (mixed, owner)]
    await site.open()
    assert [version(site, pod) for pod in (mixed, owner)] == before
    assert site.node.resource_files.written == 0


async def test_what_is_wrong_after_a_restart_is_written_again(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    before = variables(site, pod)
    (files_of(site, pod) / "resources.sh").write_text("stale")
    await site.open()
    assert (variables(site, pod), generation(site, pod)) == (before, 2)


async def test_a_restarted_container_has_the_same_directory(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    inode = files_of(site, pod).stat().st_ino
    await site.kubelet.stop(pod.container_id("c"))
    await site.node.settle()
    again = await site.kubelet.create(pod.spec, OWNS_2, pod.sandbox_id, attempt=1)
    await site.kubelet.start(again)
    assert site.runtime.node.containers[again].config.mounts[0].host_path == str(files_of(site, pod))
    assert (files_of(site, pod).stat().st_ino, generation(site, pod)) == (inode, 1)


async def test_the_directory_stays_after_the_exit_and_goes_with_the_sandbox(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    await site.kubelet.stop(pod.container_id("c"))
    await site.node.settle()
    assert files_of(site, pod).exists()
    await site.kubelet.remove_pod(pod.sandbox_id)
    await site.node.settle()
    assert not files_of(site, pod).parent.exists()


async def test_at_start_only_directories_that_the_runtime_knows_nothing_of_are_collected(
    tmp_path: Path, site: Site
) -> None:
    kept = await site.run("a", OWNS_2)
    ContainerDirectory("gone", "c").below(tmp_path).mkdir(parents=True)
    site.store = type(site.store)()  # and the saved state is lost
    await site.open()
    assert list_directories(tmp_path) == (ContainerDirectory(kept.spec.pod_uid, "c"),)
    assert variables(site, kept)["EXCLUSIVE_CPUS"] == "4-5"


async def test_a_container_that_is_left_alone_keeps_its_directory(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    del site.runtime.node.containers[pod.container_id("c")].config.annotations["cri-proxy.io/grant"]
    site.store, site.rules = type(site.store)(), Config(adopt="leave")
    await site.open()
    assert site.node.adoption.is_left(pod.container_id("c"))
    assert files_of(site, pod).exists()


async def test_a_create_that_the_runtime_refuses_leaves_no_directory(tmp_path: Path, site: Site) -> None:
    site.runtime.faults.fail_next("CreateContainer", 2, "no")
    with pytest.raises(CallFailed):
        await site.kubelet.run_pod(PodSpec("a", (OWNS_2,)))
    await site.node.settle()
    assert list_directories(tmp_path) == ()


async def test_a_pod_with_a_mount_of_its_own_at_our_place_keeps_it_and_has_none_of_ours(
    tmp_path: Path, site: Site
) -> None:
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    asked = create_request(spec, OWNS_2, sandbox, node=site.kubelet.node)
    asked.config.mounts.add(host_path="/own", container_path="/.cri-proxy/")
    reply = await site.kubelet.call("CreateContainer", asked, pb.CreateContainerResponse)
    mounts = site.runtime.node.containers[reply.container_id].config.mounts
    assert ([mount.host_path for mount in mounts], list_directories(tmp_path)) == (["/own"], ())


async def test_a_directory_that_cannot_be_written_stops_no_container_and_is_said_once(tmp_path: Path) -> None:
    root = tmp_path / "told"
    async with site_with_files(root) as site:
        root.write_text("a file")
        first, second = await site.run("a", OWNS_2), await site.run("b", MIXED)
        assert (mounted(site, first), mounted(site, second)) == ([], [])
        assert site.node.resource_files.failed >= 2
        assert [event for event in site.log.warnings if event == "resource_files_failed"] == ["resource_files_failed"]


async def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    root = tmp_path / "told"
    async with site_with_files(root) as site:
        pod = await site.run("a", MIXED)
        root.rename(tmp_path / "aside")
        root.write_text("in the way")
        await site.run("b", OWNS_2)
        assert site.node.resource_files.failed
        root.unlink()
        (tmp_path / "aside").rename(root)
        watching = background(site.node.resource_files.watch())
        for _ in range(200):
            await asyncio.sleep(0)
            await site.node.resource_files.settle()
        watching.cancel()
        assert variables(site, pod)["EXCLUSIVE_CPUS"] == "4"


async def test_without_a_root_nobody_is_told() -> None:
    site = Site(small_policy())
    await site.open()
    assert mounted(site, await site.run("a", OWNS_2)) == []


SPECS = (
    guaranteed("c", 1000),
    guaranteed("c", 2000),
    guaranteed("c", 1500),
    ContainerSpec("c", cpu_request_mcpu=300),
    ContainerSpec("c"),
)

OWN = ("EXCLUSIVE_CPUS", "ISOLATED_CPUS")


async def step(site: Site, chance: random.Random, pods: dict[str, RunningPod]) -> None:
    """One thing that happens on a node; what does not fit is refused and no matter."""
    what = chance.choice(("run", "run", "run", "remove", "resize", "restart"))
    try:
        if what == "run":
            name = f"p{chance.randrange(6)}"
            if name not in pods:
                pods[name] = await site.run(name, chance.choice(SPECS))
        elif what == "remove" and pods:
            await site.kubelet.remove_pod(pods.pop(chance.choice(sorted(pods))).sandbox_id)
        elif what == "resize" and pods:
            cpus = chance.randrange(1, 4)
            figures = pb.LinuxContainerResources(cpu_quota=cpus * 100_000, cpu_period=100_000, cpu_shares=cpus * 1024)
            await site.kubelet.update(pods[chance.choice(sorted(pods))].container_id("c"), figures)
        elif what == "restart":
            await site.open()
    except CallFailed:
        return


def check(site: Site, pods: dict[str, RunningPod]) -> None:
    """All that a container is told is what it has, and nobody is told another's own CPUs."""
    own: list[CpuSet] = []
    for pod in pods.values():
        sets = {name: CpuSet.parse(text) for name, text in variables(site, pod).items() if name.endswith("CPUS")}
        assert str(sets["SHARED_CPUS"] | sets[OWN[0]] | sets[OWN[1]]) == site.cpus(pod.container_id("c"))
        own.append(sets[OWN[0]] | sets[OWN[1]])
        plain = json.loads((files_of(site, pod) / "resources.json").read_text())
        assert plain["shared_cpus"] == str(sets["SHARED_CPUS"])
    for pod, mine in zip(pods.values(), own, strict=True):
        theirs = CpuSet.of_masks(cpus.mask for cpus in own if cpus is not mine)
        assert theirs.isdisjoint(mine)
        assert theirs.isdisjoint(CpuSet.parse(variables(site, pod)["SHARED_CPUS"]))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1 << 32))
async def test_in_the_end_everybody_reads_what_the_kernel_says(seed: int) -> None:
    chance = random.Random(seed)
    pods: dict[str, RunningPod] = {}

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        site = Site(small_policy(), rules=Config(resource_files="always"))
        site.files_root = root
        await site.open()
        for _ in range(12):
            await step(site, chance, pods)
            await site.node.settle()
            check(site, pods)
        assert site.log.errors == []
