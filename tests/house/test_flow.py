"""How many files a reader goes through who follows one flow in a running daemon, all caches warm."""

from pathlib import Path

import pytest
from grpc import aio

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from tests.fakes.entered_files import EnteredFiles, entered_files
from tests.fakes.machines import small_machine
from tests.house.tree import PACKAGES, python_files, shown
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started, was_kept

# An option that places nothing; and one for which every grant is tried again under another policy.
CONFIGURATION_FILES = {"driftCheckSeconds: 7": 45, "topologyAware: {PreferSharedCPUs: true}": 60}
DAEMON_VISITS = 15
ROUNDS = 10  # what is entered in each of them is the flow's; the rest are timers and caches that fill
# Of timers that run in every round on a busy machine, and the event loop, which asks for the time at each turn.
BESIDE = {
    f"cri_proxy/{name}.py" for name in ("daemon/cpu_wait", "daemon/loop_lag", "metrics/counters", "relay/event_loop")
}

LONG_LINES, LONG_FILES = 380, 6
METHODS = ("Version", "CreateContainer")
EMBEDDED = "cri_proxy/runtime/embedded/"
OWNS = guaranteed("c", 2000)
INVENTORY = """\
gpu: [{minor: 0, numa: 1, pcie: a}, {minor: 1, numa: 1, pcie: a}]
rdma: [{minor: 0, numa: 1, pcie: a, vf_groups: [{vfs: [{bus: "0000:20:00.1"}, {bus: "0000:20:00.2"}]}]}]
"""
Annotations = tuple[tuple[str, str], ...]
ASKS: Annotations = (
    ("cri-proxy.io/device-resources", "nvidia.com/gpu=2,rdma=1"),
    ("scheduling.koordinator.sh/device-allocate-hint", '{"rdma": {"vfSelector": {}}}'),
)


@pytest.mark.parametrize(("option", "most"), CONFIGURATION_FILES.items())
async def test_an_accepted_change_of_the_configuration_enters_few_files(option: str, most: int, tmp_path: Path) -> None:
    """From the first notice of inotify to the saved file for the next start; what is entered each time."""
    rounds, visits = list[set[str]](), list[int]()
    with entered_files() as entered:
        async with started(Scene(tmp_path)) as scene:
            for _ in range(ROUNDS):
                entered.begin()
                await scene.change(f"{CONFIG}{option}\n", "applied")
                await was_kept(scene)
                rounds.append(entered.end())
                visits.append(entered.visits("cri_proxy/daemon/"))
                await scene.change(CONFIG, "applied")
                await was_kept(scene)
    files = set.intersection(*rounds) - BESIDE
    assert len(files) <= most, sorted(files)
    assert min(visits) <= DAEMON_VISITS


@pytest.mark.parametrize(("asks", "most"), [((), 100), (ASKS, 125)], ids=["plain", "two GPUs and a VF"])
async def test_a_creation_enters_few_files_until_it_is_sent_on(asks: Annotations, most: int, tmp_path: Path) -> None:
    """Through the splice, on a machine of 4 nodes; what is entered each time."""
    text = CONFIG
    if asks:
        (tmp_path / "devices.yaml").write_text(INVENTORY)
        (tmp_path / "devices.yaml").chmod(0o644)
        text = f"{CONFIG}devices: {{inventory: {tmp_path}/devices.yaml}}\n"
    machine = small_machine(nodes=2, cores=4)
    with entered_files() as entered:
        async with started(Scene(tmp_path, text, machine)) as scene:
            rounds = [
                await _created(scene, entered, PodSpec(f"pod{i}", (OWNS,), annotations=asks)) for i in range(ROUNDS)
            ]
    files = set.intersection(*rounds) - BESIDE
    assert "cri_proxy/cri/write.py" in files
    assert len(files) <= most, sorted(files)


def test_few_files_are_entered_because_they_are_left_out_and_not_because_they_are_long() -> None:
    long = [shown(path) for path in python_files(*PACKAGES) if len(path.read_text().splitlines()) > LONG_LINES]
    assert len(long) <= LONG_FILES, long


async def _created(scene: Scene, entered: EnteredFiles, pod: PodSpec) -> set[str]:
    """Run this pod, and remove it; return the files entered while its container's creation is not yet sent on."""
    sandbox = await scene.kubelet.run_sandbox(pod)
    request = create_request(pod, OWNS, sandbox, node=scene.kubelet.node)
    async with aio.insecure_channel(f"unix:{scene.directory}/p.sock") as channel:
        version, create = (channel.unary_unary(f"{RUNTIME}{name}", bytes, bytes) for name in METHODS)
        await version(b"")  # connects
        entered.begin()
        await create(request.SerializeToString())
        files = entered.end(before=f"{EMBEDDED}runtime.py")  # its server sees the headers earlier
    assert scene.daemon.node is not None
    (row,) = scene.daemon.node.context.ledger.active()
    assert len(row.grant.devices) == (3 if pod.annotations else 0)
    await scene.kubelet.remove_pod(sandbox)
    return {file for file in files if not file.startswith(EMBEDDED)}
