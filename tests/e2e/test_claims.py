"""CPUs that a DRA driver has chosen: its CDI file on the node decides where a real container runs, and others leave."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus, refusal

KIND = f"e2e-claims-{os.getpid()}.cri-proxy.io/cpu"
CDI_DIRECTORY = Path("/var/run/cdi")
CLAIMING, SHARING = guaranteed("c0", 1000), ContainerSpec("c0", cpu_request_mcpu=100)


@pytest.fixture(scope="module")
def options(two: TwoCpus) -> Iterator[tuple[str, ...]]:
    """What a driver prepares for two claims of the same CPU."""
    made = not CDI_DIRECTORY.exists()
    CDI_DIRECTORY.mkdir(parents=True, exist_ok=True)
    devices = [{"name": n, "containerEdits": {"env": [f"DRA_CPUSET_{n}={two.high}"]}} for n in ("one", "other")]
    specification = CDI_DIRECTORY / f"cri-proxy-e2e-claims-{os.getpid()}.json"
    specification.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices}))
    yield two.low_reserved
    specification.unlink()
    if made:
        CDI_DIRECTORY.rmdir()


async def with_claim(stage: Stage, name: str, claim: str) -> RunningPod:
    spec = PodSpec(name, (CLAIMING,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    request = create_request(spec, CLAIMING, sandbox_id, node=stage.kubelet.node)
    request.config.CDI_devices.add(name=f"{KIND}={claim}")
    container_id = await stage.kubelet.create_as(request)
    await stage.kubelet.start(container_id)
    return RunningPod(spec, sandbox_id, (("c0", container_id),))


async def test_a_container_has_the_cpu_that_its_driver_chose_alone(stage: Stage, two: TwoCpus) -> None:
    sharer = await stage.run("sharer", SHARING)
    assert await stage.cpus(sharer) == CpuSet.of([two.high])
    await stage.kubelet.remove_pod(sharer.sandbox_id)
    idle = await stage.run("idle", ContainerSpec("c0"))
    pod = await with_claim(stage, "claiming", "one")
    assert await stage.cpus(pod) == CpuSet.of([two.high])
    assert await stage.cpus(idle) == CpuSet.of([two.low])
    await stage.kubelet.remove_pod(pod.sandbox_id)
    assert await stage.gets(idle, CpuSet.of([two.high]))


async def test_a_second_claim_of_the_cpu_is_refused_with_both_names(stage: Stage, two: TwoCpus) -> None:
    await with_claim(stage, "first", "one")
    refused = await refusal(with_claim(stage, "second", "other"))
    assert f"DRA_CPUSET_other claims CPU {two.high}, which is owned by first/c0 (by DRA_CPUSET_one)" in refused.message
