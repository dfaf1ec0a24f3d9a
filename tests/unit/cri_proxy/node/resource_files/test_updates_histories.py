"""Whatever happens on the node, in the end every container reads what the kernel lets it use, and whose it is."""

import json
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.context import NodeRules
from sysfs.cpuset import CpuSet
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.resource_sites import files_of, variables

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

    async def run(root: Path) -> None:
        site = Site(small_policy(), rules=NodeRules(resource_files="always"))
        site.files_root = root
        await site.open()
        for _ in range(12):
            await step(site, chance, pods)
            await site.node.settle()
            check(site, pods)
        assert site.log.errors == []

    with tempfile.TemporaryDirectory() as directory:
        await run(Path(directory))
