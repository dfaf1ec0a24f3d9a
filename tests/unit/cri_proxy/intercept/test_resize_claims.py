"""Pods that are resized in place while they own CPUs by an annotation that their author may have written."""

import json
from dataclasses import replace

import pytest

from cri_proxy.cri.annotations.resource_managers import RESOURCE_STATUS
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.state.decisions import DecisionRecord
from tests.fakes.site import Site, opened


async def claiming(site: Site, cpus: str, *containers: ContainerSpec) -> RunningPod:
    return await site.run("lsr", *containers, **{RESOURCE_STATUS: json.dumps({"cpuset": cpus})})


async def resize(site: Site, pod: RunningPod, *containers: ContainerSpec) -> list[str]:
    """Resize it as a kubelet does; return the CPUs of its containers."""
    await site.kubelet.resize(pod, replace(pod.spec, containers=containers))
    await site.node.settle()
    return [site.cpus(container_id) for _, container_id in pod.containers]


@pytest.mark.parametrize("modern", [True, False])
async def test_a_pod_that_is_resized_below_its_claim_loses_it(*, modern: bool) -> None:
    """Else pod after pod would get whole CPUs, and keep them for 10m. A runtime may lack the call about the sandbox."""
    async with opened(Site(modern=modern)) as site:
        pod = await claiming(site, "5-6", ContainerSpec("a", 2000))
        sharer = await site.run("s", ContainerSpec("c", 500))
        assert (site.cpus(pod.container_id("a")), site.cpus(sharer.container_id("c"))) == ("5-6", "1-3")
        assert await resize(site, pod, ContainerSpec("a", 10)) == ["4-7"]
        assert site.row(pod.container_id("a")).grant.request.claim is None


async def test_containers_that_owned_cpus_together_each_get_what_they_request() -> None:
    async with opened(Site()) as site:
        pod = await claiming(site, "4-7", guaranteed("a", 2000), guaranteed("b", 2000))
        assert await resize(site, pod, guaranteed("a", 1000), guaranteed("b", 2000)) == ["4", "5-6"]


async def test_a_pod_that_still_pays_keeps_its_claim() -> None:
    async with opened(Site()) as site:
        pod = await claiming(site, "4-5", guaranteed("a", 2000), guaranteed("b", 2000))
        assert await resize(site, pod, guaranteed("a", 1000), guaranteed("b", 1000)) == ["4-5", "4-5"]
        assert await resize(site, pod, guaranteed("a", 3500), guaranteed("b", 1000)) == ["4-5", "4-5"]


async def test_it_is_told_why_the_claim_is_lost() -> None:
    async with opened(Site()) as site:
        pod = await claiming(site, "5-6", ContainerSpec("a", 2000))
        await resize(site, pod, ContainerSpec("a", 10))
        record = site.journal.records.get(site.row(pod.container_id("a")).key)
        assert isinstance(record, DecisionRecord)
        told = " ".join(entry.text for entry in record.history)
        assert "its pod requests 10m now, which no longer pays for the CPUs that were claimed for it" in told
