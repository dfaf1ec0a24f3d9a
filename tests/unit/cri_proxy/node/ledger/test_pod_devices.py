"""Devices are a pod's until its sandbox stops: a crash, an end or a removal gives them to no other pod."""

from dataclasses import replace

import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.status.device_usage import inventory_views
from cri_proxy.state.rows import Saved
from policies.devices import DeviceInventory, InventoryDevice, PciePath
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.site import Site, opened
from tests.fakes.store import MemoryStore

BY_COST = {"cri-proxy.io/device-request": "example.com/gpu=1"}
BY_RESOURCE = {"cri-proxy.io/device-resources": "nvidia.com/gpu=1"}
ONE = guaranteed("c", 1000)
DEADLINE_EXCEEDED = 4  # gRPC status
ASKS = pytest.mark.parametrize("asks", [BY_COST, BY_RESOURCE], ids=["of cost files", "of the inventory"])
CROWDED = {"cri-proxy.io/device-request": "example.com/gpu=2"}, {"cri-proxy.io/device-resources": "nvidia.com/gpu=2"}


def site_with_devices() -> Site:
    return Site(policy_with_devices("example.com/gpu/0", "example.com/gpu/1", devices=two_pairs()))


def without_identities(saved: Saved) -> Saved:
    """What a store has whose grants know types and minors alone."""
    grants = (
        replace(row.grant, devices=tuple(replace(d, known_as=()) for d in row.grant.devices)) for row in saved.rows
    )
    rows = tuple(replace(row, grant=grant) for row, grant in zip(saved.rows, grants, strict=True))
    return replace(saved, rows=rows)


def devices_of(site: Site, container_id: str) -> tuple[str, ...]:
    return tuple(str(device) for device in site.row(container_id).grant.devices)


async def check(site: Site) -> None:
    await site.node.resync.check_all("slow check")
    await site.node.settle()


def spec(asks: dict[str, str], *names: str) -> PodSpec:
    return PodSpec("job", tuple(guaranteed(name, 1000) for name in names), annotations=tuple(asks.items()))


async def next_attempt(site: Site, pod: PodSpec, container: ContainerSpec, sandbox_id: str) -> str:
    container_id = await site.kubelet.create(pod, container, sandbox_id, attempt=1)
    await site.kubelet.start(container_id)
    await site.node.settle()
    return container_id


@ASKS
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_crash_gives_no_other_pod_its_device(asks: dict[str, str], is_restarted: bool) -> None:
    async with opened(site_with_devices()) as site:
        job = spec(asks, "c")
        pod = await site.run_spec(job)
        had = devices_of(site, pod.container_id("c"))
        await site.run("other", ONE, **asks)
        site.runtime.exit(pod.container_id("c"), 137)
        await check(site)
        if is_restarted:
            await site.open()
        with pytest.raises(CallFailed, match=r"by default/job/c \(ended, kept for its pod\)"):
            await site.run("waiting", ONE, **asks)
        again = await next_attempt(site, job, job.containers[0], pod.sandbox_id)
        assert devices_of(site, again) == had


@pytest.mark.parametrize("is_told_by", ["the store", "the store of an older version", "the container's annotation"])
async def test_a_device_stays_its_holders_where_a_restart_gives_it_another_type(is_told_by: str) -> None:
    """As where a version counts it otherwise, or another driver is bound: an RDMA device becomes a NIC."""
    first, other = (PciePath(bus=f"0000:0{n}:00.0") for n in (1, 2))
    before = DeviceInventory(tuple(InventoryDevice("rdma", n, path=path) for n, path in enumerate((first, other))))
    changed = InventoryDevice("nic", 0, path=first, formerly=(("rdma", 0),))
    site = Site(policy_with_devices(devices=before))
    async with opened(site):
        had = await site.run("a", ONE, **{"cri-proxy.io/device-resources": "rdma=100"})
        assert devices_of(site, had.container_id("c")) == ("rdma 0",)
        if is_told_by == "the container's annotation":
            site.store = MemoryStore()
        elif is_told_by == "the store of an older version":
            site.store = MemoryStore(without_identities(site.store.load()))
        site.policy = policy_with_devices(devices=DeviceInventory((before.devices[1], changed)))
        await site.open()
        with pytest.raises(CallFailed, match="nic: 1 asked for, none can be given"):
            await site.run("b", ONE, **{"cri-proxy.io/device-resources": "cri-proxy.io/nic=100"})
        third = await site.run("c", ONE, **{"cri-proxy.io/device-resources": "rdma=100"})
        assert devices_of(site, third.container_id("c")) == ("rdma 1",)
        await site.kubelet.remove_pod(had.sandbox_id)
        await site.run("d", ONE, **{"cri-proxy.io/device-resources": "cri-proxy.io/nic=100"})


@ASKS
async def test_what_an_init_container_had_the_next_one_of_its_pod_gets(asks: dict[str, str]) -> None:
    """And not a free one, which stays free for others."""
    async with opened(site_with_devices()) as site:
        await site.run("first", ONE, **asks)
        job = spec(asks, "init", "app")
        sandbox_id = await site.kubelet.run_sandbox(job)
        init = await site.kubelet.create(job, job.containers[0], sandbox_id)
        await site.kubelet.start(init)
        had = devices_of(site, init)
        await site.kubelet.remove_pod(next(iter(set(await site.kubelet.sandboxes()) - {sandbox_id})))
        site.runtime.exit(init, 0)
        await check(site)
        app = await site.kubelet.create(job, job.containers[1], sandbox_id)
        await site.kubelet.start(app)
        assert devices_of(site, app) == had
        assert all(not row.grant.devices for row in site.node.context.ledger.rows() if row.key.name == "init")
        await site.run("last", ONE, **asks)


MORE = [
    ("cri-proxy.io/device-resources", "nvidia.com/gpu", "gpu 0"),
    ("cri-proxy.io/device-request", "example.com/gpu", "example.com/gpu 2"),
]


@pytest.mark.parametrize(("key", "resource", "kept"), MORE, ids=["of the inventory", "of cost files"])
async def test_one_that_asks_for_more_than_its_pod_keeps_gets_that_and_a_free_one(
    key: str, resource: str, kept: str
) -> None:
    """Though two others are nearer to each other: else one GPU would be idle as long as the pod lives."""
    gpus = DeviceInventory(tuple(InventoryDevice("gpu", n, node, f"p{n}") for n, node in enumerate((0, 1, 1))))
    listed = [f"example.com/gpu/{n}" for n in range(3)] if "example" in resource else []
    asks = {name: {key: f"{resource}={n}"} for name, n in (("one", 1), ("two", 2))}
    async with opened(Site(policy_with_devices(*listed, devices=DeviceInventory(()) if listed else gpus))) as site:
        pair = await site.run("pair", ONE, **asks["two"])
        job = spec({key: f'{{"init": "{resource}=1", "app": "{resource}=2"}}'}, "init", "app")
        sandbox_id = await site.kubelet.run_sandbox(job)
        init = await site.kubelet.create(job, job.containers[0], sandbox_id)
        await site.kubelet.start(init)
        assert devices_of(site, init) == (kept,)
        others = devices_of(site, pair.container_id("c"))
        await site.kubelet.remove_pod(pair.sandbox_id)
        site.runtime.exit(init, 0)
        await check(site)
        app = await site.kubelet.create(job, job.containers[1], sandbox_id)
        await site.kubelet.start(app)
        assert kept in devices_of(site, app) and len(devices_of(site, app)) == 2
        assert all(not row.grant.devices for row in site.node.context.ledger.rows() if row.key.name == "init")
        last = await site.run("last", ONE, **asks["one"])
        assert {*devices_of(site, app), *devices_of(site, last.container_id("c"))} == {kept, *others}


@ASKS
async def test_they_are_free_once_the_sandbox_stops(asks: dict[str, str]) -> None:
    async with opened(site_with_devices()) as site:
        pod = await site.run_spec(spec(asks, "c"))
        site.runtime.exit(pod.container_id("c"), 0)
        await site.kubelet.remove(pod.container_id("c"))
        await check(site)
        both = next(asked for asked in CROWDED if asked.keys() == asks.keys())
        with pytest.raises(CallFailed, match="kept for its pod"):
            await site.run("too large", ONE, **both)
        await site.kubelet.call(
            "StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id), pb.StopPodSandboxResponse
        )
        await site.run("large", ONE, **both)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_sandbox_that_stopped_without_a_call_holds_none(is_restarted: bool) -> None:
    async with opened(site_with_devices()) as site:
        pod = await site.run_spec(spec(BY_RESOURCE, "c"))
        site.runtime.exit(pod.container_id("c"), 137)
        request = pb.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id)
        await site.runtime.unary(RUNTIME + "StopPodSandbox", request.SerializeToString(), timeout_seconds=1.0)
        await (site.open() if is_restarted else check(site))
        await site.run("large", ONE, **CROWDED[1])


async def test_shares_of_a_device_count_until_another_container_of_the_pod_has_them() -> None:
    share = {"cri-proxy.io/device-resources": "koordinator.sh/gpu-core=60,koordinator.sh/gpu-memory-ratio=60"}
    rest = {"cri-proxy.io/device-resources": "koordinator.sh/gpu-core=40,koordinator.sh/gpu-memory-ratio=40"}
    async with opened(site_with_devices()) as site:
        job = spec(share, "init", "app")
        sandbox_id = await site.kubelet.run_sandbox(job)
        init = await site.kubelet.create(job, job.containers[0], sandbox_id)
        await site.kubelet.start(init)
        (gpu,) = devices_of(site, init)
        await site.run("big", ONE, **BY_RESOURCE)  # the other GPU
        site.runtime.exit(init, 0)
        await check(site)
        with pytest.raises(CallFailed, match="kept for its pod"):
            await site.run("refused", ONE, **share)
        app = await site.kubelet.create(job, job.containers[1], sandbox_id)
        await site.kubelet.start(app)
        assert devices_of(site, app) == (gpu,)
        await site.run("other", ONE, **rest)


@ASKS
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_an_attempt_that_the_runtime_never_made_loses_its_pod_nothing(
    asks: dict[str, str], is_restarted: bool
) -> None:
    async with opened(site_with_devices()) as site:
        job = spec(asks, "c")
        pod = await site.run_spec(job)
        had = devices_of(site, pod.container_id("c"))
        await site.run("other", ONE, **asks)
        site.runtime.exit(pod.container_id("c"), 137)
        site.runtime.faults.fail_next("CreateContainer", DEADLINE_EXCEEDED, "deadline exceeded")
        with pytest.raises(CallFailed):
            await site.kubelet.create(job, job.containers[0], pod.sandbox_id, attempt=1)
        await (site.open() if is_restarted else check(site))
        with pytest.raises(CallFailed, match="kept for its pod"):
            await site.run("waiting", ONE, **asks)
        again = await next_attempt(site, job, job.containers[0], pod.sandbox_id)
        assert devices_of(site, again) == had


async def test_status_names_the_pod_that_keeps_a_device() -> None:
    async with opened(site_with_devices()) as site:
        pod = await site.run_spec(spec(BY_RESOURCE, "c"))
        site.runtime.exit(pod.container_id("c"), 137)
        await check(site)
        ledger = site.node.context.ledger
        views = inventory_views(ledger.policy.known, ledger.allocations)
        assert [h.container for view in views for h in view.holders] == ["default/job/c (ended, kept for its pod)"]
