from collections.abc import AsyncIterator

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.node.node import SETTLED_SECONDS
from tests.fakes.site import Site, opened

OURS = "cri-proxy.io"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with opened(Site()) as site:
        yield site


async def reported(site: Site, *annotations: tuple[str, str], after_seconds: float = SETTLED_SECONDS) -> list[str]:
    """The reasons of annotations that are ignored, a while after a pod of the containers a and b was created."""
    found: list[str] = []
    site.log.warning = lambda event, **fields: found.append(str(fields["reason"]))  # type: ignore[method-assign]
    pod = PodSpec("p", (guaranteed("a", 1000), guaranteed("b", 1000)), annotations=annotations)
    await site.run_spec(pod)
    await site.clock.sleep(after_seconds)
    await site.node.slow_check()
    await site.node.slow_check()
    return found


@pytest.mark.parametrize(
    ("key", "value", "absent"),
    [
        (f"prefer-shared-cpus.{OURS}/container.zzz", "true", "zzz"),
        (f"{OURS}/prefer-shared-cpus", "{a: true, zzz: false, yyy: true}", "yyy, zzz"),
        (f"{OURS}/affinity", "a: [nosuch, b]", "nosuch"),
        (f"{OURS}/memory-type", "{c: dram, d: dram, e: dram, f: dram, g: dram}", "c, d, e, f, ..."),
    ],
)
async def test_a_name_that_no_container_of_the_pod_has_is_reported_once(
    site: Site, key: str, value: str, absent: str
) -> None:
    expected = f"annotations name {absent}, and the pod has had no such container"
    assert await reported(site, (key, value)) == [expected]


async def test_a_container_may_still_come_for_a_while(site: Site) -> None:
    named = (f"prefer-shared-cpus.{OURS}/container.zzz", "true")
    assert await reported(site, named, after_seconds=SETTLED_SECONDS / 2) == []


@pytest.mark.parametrize("value", ["true", "{a: true, b: false}"])
async def test_annotations_of_the_pods_own_containers_are_no_news(site: Site, value: str) -> None:
    assert (
        await reported(site, (f"{OURS}/prefer-shared-cpus", value), (f"memory-type.{OURS}/container.a", "dram")) == []
    )


async def test_a_pod_that_has_gone_is_not_reported(site: Site) -> None:
    pod = await site.run_spec(
        PodSpec("gone", (guaranteed("a", 1000),), annotations=((f"{OURS}/cold-start", "{z: 5s}"),))
    )
    await site.kubelet.remove_pod(pod.sandbox_id)
    assert await reported(site) == []
