"""containerd while a start hangs in runc: why its CPUs are nobody else's (docs/placement.md, Enactment)."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.runtime.client import RuntimeClient
from sysfs.cpuset import CpuSet
from tests.fakes.waiting import holds
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.kernel import own_allowed, read_allowed
from tests.testbed.pod_kubelet import PodKubelet

SECONDS = 60.0
# The command of runc that hangs, by its name in a file, until that is gone; another file shows that it does.
SLOW_RUNC = """#!/bin/sh
for word in "$@"; do
    while [ "$word" = "$(cat {directory}/hangs 2>/dev/null)" ]; do touch {directory}/is-hanging; sleep 0.05; done
done
exec runc "$@"
"""


@pytest.mark.parametrize("command", ["create", "start"])
async def test_an_update_that_is_answered_during_a_start_does_not_reach_the_kernel(command: str) -> None:
    """containerd shows the new CPUs as the container's, which runs on the old ones."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp"))
    hangs, runc, (one, other, *_) = directory / "hangs", directory / "slow-runc", own_allowed().cpus
    runc.write_text(SLOW_RUNC.format(directory=directory))
    runc.chmod(0o755)
    spec = PodSpec("p", (ContainerSpec("c"),))
    try:
        async with PrivateContainerd(directory / "c", name=directory.name, runc=str(runc)) as containerd:
            client = RuntimeClient(containerd.endpoint)
            kubelet = PodKubelet(client, containerd.node)
            container_id = await kubelet.create(spec, spec.containers[0], await kubelet.run_sandbox(spec))
            await kubelet.update(container_id, pb.LinuxContainerResources(cpuset_cpus=f"{one},{other}"))
            hangs.write_text(command)
            start = asyncio.get_running_loop().create_task(kubelet.start(container_id))
            await holds("it hangs", (directory / "is-hanging").exists, seconds=SECONDS)
            await kubelet.update(container_id, pb.LinuxContainerResources(cpuset_cpus=str(one)))
            hangs.unlink()
            await start
            shown = (await kubelet.status(container_id)).status.resources.linux.cpuset_cpus
            process = Path(f"/proc/{await kubelet.pid(container_id)}/status")
            assert (shown, read_allowed(process.read_text()).cpus) == (str(one), CpuSet.of([one, other]))
            await client.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
