from collections.abc import AsyncIterator

import pytest

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.node.node import SETTLED_SECONDS
from tests.fakes.site import Site, opened

OURS = "cri-proxy.io"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with opened(Site()) as site:
        yield site


def reasons(site: Site) -> list[str]:
    """The reasons of the warnings from here on."""
    found: list[str] = []
    site.log.warning = lambda event, **fields: found.append(str(fields["reason"]))  # type: ignore[method-assign]
    return found


def two(*annotations: tuple[str, str]) -> PodSpec:
    return PodSpec("p", (guaranteed("a", 1000), guaranteed("b", 1000)), annotations=annotations)


async def wait(site: Site, seconds: float = SETTLED_SECONDS) -> None:
    await site.clock.sleep(seconds)
    await site.node.slow_check()
    await site.node.slow_check()


async def reported(site: Site, *annotations: tuple[str, str], after_seconds: float = SETTLED_SECONDS) -> list[str]:
    """The reasons of annotations that are ignored, a while after a pod of the containers a and b was created."""
    found = reasons(site)
    await site.run_spec(two(*annotations))
    await wait(site, after_seconds)
    return found


async def restart(site: Site, spec: PodSpec, pod: RunningPod, name: str) -> None:
    """Let a container exit, remove it, and create it again."""
    await site.kubelet.stop(pod.container_id(name))
    await site.kubelet.remove(pod.container_id(name))
    container = next(container for container in spec.containers if container.name == name)
    await site.kubelet.start(await site.kubelet.create(spec, container, pod.sandbox_id, attempt=1))
    await site.node.settle()


BOTH = (f"{OURS}/prefer-shared-cpus", "{a: true, b: true}")
ANOTHER = (f"{OURS}/prefer-shared-cpus", "{a: true, b: true, zzz: true}")


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
    expected = f"annotations name {absent}, and the pod has had no such container so far"
    assert await reported(site, (key, value)) == [expected]


async def test_the_pods_containers_have_it_in_their_history(site: Site) -> None:
    named = (f"prefer-shared-cpus.{OURS}/container.zzz", "true")
    await reported(site, named)
    for row in site.node.context.ledger.rows():
        record = site.journal.records.get(row.key)
        assert record is not None
        assert (record.history[-1].what, record.history[-1].count) == ("annotation-ignored", 1)
        assert record.history[-1].text == "annotations name zzz, and the pod has had no such container so far"


async def test_a_container_may_still_come_for_a_while(site: Site) -> None:
    named = (f"prefer-shared-cpus.{OURS}/container.zzz", "true")
    assert await reported(site, named, after_seconds=SETTLED_SECONDS / 2) == []


@pytest.mark.parametrize("value", ["true", "{a: true, b: false}"])
async def test_annotations_of_the_pods_own_containers_are_no_news(site: Site, value: str) -> None:
    assert (
        await reported(site, (f"{OURS}/prefer-shared-cpus", value), (f"memory-type.{OURS}/container.a", "dram")) == []
    )


@pytest.mark.parametrize("named", [BOTH, ANOTHER])
async def test_a_restart_after_the_report_is_no_news(site: Site, named: tuple[str, str]) -> None:
    pod = await site.run_spec(two(named))
    await wait(site)
    found = reasons(site)
    await restart(site, two(named), pod, "b")
    await wait(site)
    assert found == []


async def test_a_container_that_has_gone_was_there(site: Site) -> None:
    """As an init container, between whose end and the first of the others nothing of the pod runs."""
    found, spec = reasons(site), two(BOTH)
    sandbox_id = await site.kubelet.run_sandbox(spec)
    first = await site.kubelet.create(spec, spec.containers[0], sandbox_id)
    await site.kubelet.start(first)
    await site.kubelet.stop(first)
    await site.kubelet.remove(first)
    await wait(site)
    await site.kubelet.start(await site.kubelet.create(spec, spec.containers[1], sandbox_id))
    await wait(site)
    assert found == []


async def test_nothing_is_said_of_a_pod_that_an_earlier_process_has_seen(site: Site) -> None:
    pod = await site.run_spec(two(BOTH))
    await site.open()
    found = reasons(site)
    await restart(site, two(BOTH), pod, "b")
    await wait(site)
    assert found == []


async def test_a_pod_that_has_gone_is_not_reported(site: Site) -> None:
    pod = await site.run_spec(
        PodSpec("gone", (guaranteed("a", 1000),), annotations=((f"{OURS}/cold-start", "{z: 5s}"),))
    )
    await site.kubelet.remove_pod(pod.sandbox_id)
    assert await reported(site) == []
