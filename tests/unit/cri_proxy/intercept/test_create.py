import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import ThreadCountOptions
from cri_proxy.config.thread_variables import VARIABLES
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.status.containers import unpinned
from policies.builder import build_policy
from policies.policy import Policy
from policies.preferences import ThreadCounts
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.resource_sites import mounted, site_with_files, variables
from tests.unit.cri_proxy.node.stage import FragilePolicy, background, soon

OWNS_2 = guaranteed("c", 2000)
MIXED = guaranteed("c", 1500)
SHARES = ContainerSpec("c", cpu_request_mcpu=100, cpu_limit_mcpu=500)
LIFT = Config(policy_options=(TopologyAwareOptions(lift_quota=True),))
FRACTION = Config(policy_options=(TopologyAwareOptions(fraction_shares=True),))
BOTH = Config(policy_options=(TopologyAwareOptions(lift_quota=True, fraction_shares=True),))


def policy(name: str = "topology-aware", *, pins: bool = True) -> Policy:
    machine = describe({"packages": 2, "cores": 4})
    chosen = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    return build_policy(name, machine, replace(chosen, pin_cpu=pins, pin_memory=pins))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_with_files(tmp_path) as site:
        yield site


def record(site: Site, pod: RunningPod) -> pb.LinuxContainerResources:
    return site.runtime.record(pod.container_id("c"))


def cpu_time(site: Site, pod: RunningPod) -> tuple[int, int]:
    return record(site, pod).cpu_quota, record(site, pod).cpu_shares


async def resize(site: Site, pod: RunningPod, cpus: int) -> None:
    figures = pb.LinuxContainerResources(cpu_quota=cpus * 100_000, cpu_period=100_000, cpu_shares=cpus * 1024)
    await site.kubelet.update(pod.container_id("c"), figures)
    await site.node.settle()


async def test_by_default_quota_and_shares_stay_the_kubelets(site: Site) -> None:
    assert cpu_time(site, await site.run("a", OWNS_2)) == (200_000, 2048)
    assert cpu_time(site, await site.run("b", MIXED)) == (150_000, 1536)


async def test_a_lifted_quota_stays_lifted_through_the_kubelets_updates() -> None:
    async with opened(Site(rules=LIFT)) as site:
        pod = await site.run("a", OWNS_2)
        assert cpu_time(site, pod) == (-1, 2048)
        await resize(site, pod, 3)
        assert cpu_time(site, pod) == (-1, 3072)
        await site.kubelet.update(pod.container_id("c"), pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20))
        assert cpu_time(site, pod) == (-1, 3072)


def answered_with(container_id: str) -> bytes:
    return pb.CreateContainerResponse(container_id=container_id).SerializeToString()


UNUSABLE = {"garbage": b"\xff", "empty": b"", "not text": b"\x0a\x02\xff\xfe", "no id": answered_with("a b\n")}


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_a_container_whose_id_cannot_be_used_is_found_by_asking(reply: bytes, site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    site.runtime.faults.rewrite("CreateContainer", lambda _, __: reply)
    with suppress(DecodeError):
        await site.kubelet.create(spec, OWNS_2, sandbox)
    await site.node.settle()
    (row,) = site.node.context.ledger.active()
    (made,) = site.runtime.node.containers
    assert (row.container_id, row.state) == (made, "created")
    assert row.acknowledged is not None
    assert row.acknowledged.cpus == row.grant.owned


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_a_place_is_free_again_when_the_runtime_made_nothing_for_it(reply: bytes, site: Site) -> None:
    def lose(_: bytes, __: bytes) -> bytes:
        site.runtime.node.containers.clear()
        return reply

    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    site.runtime.faults.rewrite("CreateContainer", lose)
    with suppress(DecodeError):
        await site.kubelet.create(spec, OWNS_2, sandbox)
    await site.node.settle()
    assert site.node.context.ledger.active() == ()


async def test_the_id_of_another_container_does_not_take_that_ones_row(site: Site) -> None:
    first = (await site.run("a", OWNS_2)).container_id("c")
    before = site.row(first)
    site.runtime.faults.rewrite("CreateContainer", lambda _, __: answered_with(first))
    spec = PodSpec("b", (OWNS_2,))
    await site.kubelet.create(spec, OWNS_2, await site.kubelet.run_sandbox(spec))
    await site.node.settle()
    made = set(site.runtime.node.containers)
    assert {row.container_id for row in site.node.context.ledger.active()} == made
    assert (site.row(first), len(made)) == (before, 2)


async def test_the_id_of_its_own_earlier_attempt_is_anothers_too(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    first = pod.container_id("c")
    site.runtime.exit(first)
    site.runtime.faults.rewrite("CreateContainer", lambda _, __: answered_with(first))
    await site.kubelet.create(pod.spec, OWNS_2, pod.sandbox_id, attempt=1)
    await site.node.settle()
    (row,) = site.node.context.ledger.active()
    assert row.container_id in set(site.runtime.node.containers) - {first}


async def test_while_the_runtime_cannot_be_asked_the_place_is_held(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    site.runtime.faults.rewrite("CreateContainer", lambda _, __: b"")
    site.runtime.faults.fail_next("ListContainers", 2, "not now")
    await site.kubelet.create(spec, OWNS_2, sandbox)
    await site.node.settle()
    (row,) = site.node.context.ledger.active()
    assert (row.state, len(row.grant.owned)) == ("pending", 2)
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    (row,) = site.node.context.ledger.active()
    assert row.container_id in site.runtime.node.containers


async def test_who_shares_keeps_its_quota() -> None:
    async with opened(Site(rules=LIFT)) as site:
        assert cpu_time(site, await site.run("a", MIXED)) == (150_000, 1536)
        assert cpu_time(site, await site.run("b", SHARES))[0] == 50_000


async def test_shares_of_the_fraction_are_written_again_with_each_update() -> None:
    async with opened(Site(rules=FRACTION)) as site:
        pod = await site.run("a", MIXED)
        assert cpu_time(site, pod) == (150_000, 512)
        figures = pb.LinuxContainerResources(cpu_quota=250_000, cpu_period=100_000, cpu_shares=2560)
        await site.kubelet.update(pod.container_id("c"), figures)
        assert cpu_time(site, pod) == (250_000, 512)


async def test_the_recorded_request_comes_from_the_kubelets_own_numbers() -> None:
    async with opened(Site(rules=BOTH)) as site:
        pod = await site.run("a", MIXED)
        figures = pb.LinuxContainerResources(cpu_quota=250_000, cpu_period=100_000, cpu_shares=2560)
        await site.kubelet.update(pod.container_id("c"), figures)
        row = site.row(pod.container_id("c"))
        request = row.grant.request
        assert (request.cpu_request_mcpu, request.cpu_limit_mcpu, len(row.grant.owned)) == (2500, 2500, 2)


async def test_our_own_updates_of_others_touch_nothing_but_cpusets() -> None:
    async with opened(Site(rules=BOTH)) as site:
        shares = await site.run("s", SHARES)
        before = record(site, shares)
        await site.run("full", guaranteed("c", 4000))
        await site.run("a", OWNS_2)
        after = record(site, shares)
        assert before.cpuset_cpus != after.cpuset_cpus
        after.cpuset_cpus = before.cpuset_cpus
        assert after == before


async def test_even_when_deciding_fails_an_update_does_not_undo_a_lifted_quota() -> None:
    fragile = FragilePolicy(policy())
    site = Site(fragile, rules=LIFT)
    await site.open()
    pod = await site.run("a", OWNS_2)
    fragile.broken.add("decide")
    await resize(site, pod, 3)
    assert cpu_time(site, pod) == (-1, 3072)


async def test_a_caller_that_leaves_while_the_files_are_written_holds_nothing(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    creating = background(site.kubelet.create(spec, OWNS_2, sandbox))
    await soon(lambda: bool(site.node.context.ledger.of_pod(spec.pod_uid)))
    creating.cancel()
    await asyncio.wait([creating])
    await site.node.settle()
    assert site.node.context.ledger.of_pod(spec.pod_uid) == ()


@pytest.mark.parametrize("broken", ["pinnings", "all"])
async def test_a_policy_that_breaks_stops_no_container_that_would_be_told(tmp_path: Path, broken: str) -> None:
    fragile = FragilePolicy(policy())
    site = Site(fragile, rules=Config(resource_files="always"))
    site.files_root = tmp_path
    await site.open()
    await site.run("before", MIXED)
    fragile.broken.add(broken)
    container = (await site.kubelet.run_pod(PodSpec("a", (OWNS_2,)))).container_id("c")
    assert site.runtime.node.containers[container].running


def came_with(site: Site, pod: RunningPod) -> tuple[str, str, list[tuple[str, str]]]:
    return record(site, pod).cpuset_cpus, record(site, pod).cpuset_mems, mounted(site, pod)


async def run_with_sets(site: Site, cpus: str, mems: str, namespace: str = "default", **annotations: str) -> RunningPod:
    """A pod whose container comes with cpuset fields of its own, as from another manager."""
    spec = PodSpec("own", (OWNS_2,), namespace=namespace, annotations=tuple(sorted(annotations.items())))
    sandbox = await site.kubelet.run_sandbox(spec)
    asked = create_request(spec, OWNS_2, sandbox, node=site.kubelet.node)
    asked.config.linux.resources.cpuset_cpus, asked.config.linux.resources.cpuset_mems = cpus, mems
    reply = await site.kubelet.call("CreateContainer", asked, pb.CreateContainerResponse)
    await site.kubelet.start(reply.container_id)
    await site.node.settle()
    return RunningPod(spec, sandbox, (("c", reply.container_id),))


PRESERVE = {"cri-proxy.io/cpu.preserve": "true"}
PRESERVE_MEMORY = {"cri-proxy.io/memory.preserve": "true"}


@pytest.mark.parametrize(("cpus", "mems"), [("", ""), ("5-6", "1")])
async def test_a_container_that_preserves_its_cpus_is_left_as_it_came_and_not_told(
    cpus: str, mems: str, site: Site
) -> None:
    pod = await run_with_sets(site, cpus, mems, "kube-system", **PRESERVE)
    await site.run("other", OWNS_2)
    assert came_with(site, pod) == (cpus, mems, [])


async def test_preserved_memory_stays_and_the_cpus_are_ours(site: Site) -> None:
    pod = await run_with_sets(site, "0", "0-1", **PRESERVE_MEMORY)
    assert (record(site, pod).cpuset_cpus, record(site, pod).cpuset_mems) == ("4-5", "0-1")


@pytest.mark.parametrize(
    ("chosen", "expected"), [(policy("none"), ("5-6", "1", [])), (policy(pins=False), ("5-6", "1", []))]
)
async def test_what_the_operator_does_not_pin_is_left_as_it_came(chosen: Policy, expected: object) -> None:
    async with opened(Site(chosen)) as site:
        assert came_with(site, await run_with_sets(site, "5-6", "1")) == expected


async def test_who_opts_out_is_told_when_it_asks(site: Site) -> None:
    pod = await run_with_sets(site, "5-6", "1", "kube-system", **PRESERVE, **{"cri-proxy.io/resource-files": "true"})
    assert (variables(site, pod)["SHARED_CPUS"], variables(site, pod)["ALL_MEMS"]) == ("5-6", "1")
    assert record(site, pod).cpuset_cpus == "5-6"


async def test_a_container_that_was_there_before_us_can_be_left_alone() -> None:
    site = Site(policy(), rules=Config(adopt="leave"))
    await site.open()
    pod = await site.run("a", OWNS_2)
    container = site.runtime.node.containers[pod.container_id("c")]
    del container.config.annotations[GRANT_KEY]
    container.record.cpuset_cpus, site.store = "6", type(site.store)()
    await site.open()
    await site.run("b", OWNS_2)
    assert record(site, pod).cpuset_cpus == "6"


@pytest.mark.parametrize(("brings", "expected"), [("", ("kube-system/own/c",)), ("0-1", ())])
async def test_whoever_runs_unpinned_can_reach_cpus_that_others_own(
    brings: str, expected: tuple[str, ...], site: Site
) -> None:
    """With a cpuset of its own it cannot: those CPUs are withheld."""
    await run_with_sets(site, brings, "", "kube-system", **PRESERVE)
    owner = await site.run("owner", OWNS_2)
    row = site.row(owner.container_id("c"))
    assert unpinned(site.node.context.ledger, site.node.adoption.left()).on(row) == expected


async def test_annotations_are_parsed_once_for_all_containers_of_all_pods_that_have_them(site: Site) -> None:
    for name in ("a", "b"):
        asks = {"cri-proxy.io/prefer-shared-cpus": "{c: false}"}
        await site.run(name, guaranteed("c", 1000), guaranteed("d", 1000), **asks)
        assert len(site.node.context.annotations) == 1


async def test_a_pod_with_too_long_annotations_is_placed_without_them_and_keeps_none_in_memory(site: Site) -> None:
    long = {"cri-proxy.io/cpu.preserve": "true", "cri-proxy.io/affinity": "[" + "a," * (120 << 10) + "]"}
    pod = await site.run("a", OWNS_2, **long)
    assert len(CpuSet.parse(record(site, pod).cpuset_cpus)) == 2
    (saved,) = site.node.context.ledger.sandboxes.values()
    assert (saved.annotations, len(saved.config) < 1000) == ((), True)
    explained = site.journal.records.get(site.row(pod.container_id("c")).key)
    assert explained is not None
    (problem,) = explained.problems
    assert (problem.startswith("annotation cri-proxy.io/affinity: "), "more than 16384" in problem) == (True, True)


async def test_strict_annotations_refuse_a_pod_with_too_long_ones() -> None:
    async with opened(Site(rules=Config(strict_annotations=True))) as site:
        with pytest.raises(CallFailed, match=r"more than 16384: none of them counts"):
            await site.run("a", OWNS_2, **{"cri-proxy.io/affinity": "x" * (240 << 10)})


def thread_counts(site: Site, pod: RunningPod) -> dict[str, str]:
    envs = site.runtime.node.containers[pod.container_id("c")].config.envs
    return {env.key: env.value.decode() for env in envs if not env.key.startswith("KUBERNETES_")}


def noted_environment(site: Site, pod: RunningPod) -> list[str]:
    record = site.journal.records.get(site.row(pod.container_id("c")).key)
    return [entry.text for entry in record.history if entry.what == "environment"] if record is not None else []


async def test_by_default_no_thread_count_is_set(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    assert (thread_counts(site, pod), noted_environment(site, pod)) == ({}, [])


async def test_an_owner_is_told_how_many_threads_fit_and_explain_says_so_after_a_restart_too() -> None:
    names = ("GOMAXPROCS", "OMP_NUM_THREADS")
    rules = Config(thread_counts=ThreadCountOptions(ThreadCounts.OWNED, names))
    async with opened(Site(rules=rules)) as site:
        owner, sharer = await site.run("a", OWNS_2), await site.run("s", SHARES)
        assert (thread_counts(site, owner), thread_counts(site, sharer)) == (dict.fromkeys(names, "2"), {})
        said = ["GOMAXPROCS=2, OMP_NUM_THREADS=2 set; a resize does not change them"]
        assert noted_environment(site, owner) == said
        await resize(site, owner, 3)
        await site.open()
        assert (thread_counts(site, owner), noted_environment(site, owner)) == (dict.fromkeys(names, "2"), said)


async def test_an_annotation_says_from_what_thread_counts_follow() -> None:
    async with opened(Site()) as site:
        pod = await site.run("s", SHARES, **{"cri-proxy.io/thread-counts": "request"})
        assert thread_counts(site, pod) == dict.fromkeys(VARIABLES, "1")
    rules = Config(thread_counts=ThreadCountOptions(ThreadCounts.OWNED))
    async with opened(Site(rules=rules)) as site:
        assert thread_counts(site, await site.run("a", OWNS_2, **{"cri-proxy.io/thread-counts": "none"})) == {}


async def test_a_thread_count_that_the_pod_sets_stays() -> None:
    rules = Config(thread_counts=ThreadCountOptions(ThreadCounts.OWNED, ("KUBERNETES_SERVICE_PORT", "GOMAXPROCS")))
    async with opened(Site(rules=rules)) as site:
        pod = await site.run("a", OWNS_2)
        envs = site.runtime.node.containers[pod.container_id("c")].config.envs
        assert [env.value for env in envs if env.key == "KUBERNETES_SERVICE_PORT"] == [b"443"]
        assert noted_environment(site, pod) == ["GOMAXPROCS=2 set; a resize does not change them"]
