"""A containerd whose own CPU affinity is the lower CPU, as by CPUAffinity of its unit: what its containers inherit."""

import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import ContainerSpec
from sysfs.cpuset import CpuSet
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.wait import until

SHARER = ContainerSpec("c0", cpu_request_mcpu=100)


@pytest.fixture(scope="module")
async def containerd(two: TwoCpus) -> AsyncIterator[PrivateContainerd]:
    """Its directory is short: the path of a Unix socket has at most 107 characters."""
    containerd = PrivateContainerd(Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp")))
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {two.low})  # of this thread, and so of what it starts
        try:
            await containerd.start()
        finally:
            os.sched_setaffinity(0, before)
        yield containerd
    finally:
        await containerd.stop()


@pytest.fixture(scope="module")
def relay() -> str:
    """Either will do: nothing here is about how calls are relayed."""
    return "splice"


async def test_what_a_container_inherits_of_it_is_told_and_never_repaired(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("inherits", SHARER)
    runs_on = await stage.cpus(pod)
    if runs_on == two.both:  # Linux before 6.2, or runc 1.2.7, 1.3.1 or later: nothing is inherited, nothing is told
        assert not any("affinity" in each for each in (await stage.daemon.admin.status()).warnings)
        return
    assert runs_on == CpuSet.of([two.low])

    async def is_told() -> bool:
        warnings = (await stage.daemon.admin.status()).warnings
        return any("CPU affinity of the runtime" in each and "inherits" in each for each in warnings)

    await until("status tells it", is_told, seconds=SETTLE_SECONDS)
    assert await stage.cpus(pod) == runs_on
