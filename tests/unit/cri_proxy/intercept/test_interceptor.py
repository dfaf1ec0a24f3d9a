import asyncio
from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.annotations.rules import Restriction
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.intercept.gate import CREATE, RUNTIME
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.node import AFTER_FAULT_SECONDS
from cri_proxy.relay.calls import Aborted, Call, Forward, Interest, Refuse, Replied
from policies.base import CpuKind
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.clock import ManualClock
from tests.fakes.grants import small_policy
from tests.fakes.site import Site, no_hints, opened
from tests.unit.cri_proxy.node.stage import REJECT, FragilePolicy, direct, owned, soon

OWNS_2 = guaranteed("c", 2000)
HELD = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
    "RestorePod",
    "UpdatePodSandboxResources",
)


def fragile(rules: Config | None = None) -> tuple[Site, FragilePolicy]:
    policy = FragilePolicy(small_policy())
    return Site(policy, rules=rules), policy


async def test_the_methods_of_the_table_are_held_and_all_others_pass(site: Site) -> None:
    wants = site.interceptor.wants
    assert all(wants(RUNTIME + name) is Interest.HOLD for name in HELD)
    assert wants(RUNTIME + "RuntimeConfig") is Interest.STAND_IN
    others = (RUNTIME + "ListContainers", RUNTIME + "Brandnew", "/runtime.v1.ImageService/PullImage", "/x.Y/Z")
    assert all(wants(method) is Interest.PASS for method in others)


async def test_the_old_interface_is_refused(site: Site) -> None:
    assert site.interceptor.wants("/runtime.v1alpha2.RuntimeService/Version") is Interest.REFUSE


@pytest.mark.parametrize("broken", ["decide", "pinnings", "reinstate", "fallback", "all"])
async def test_whatever_breaks_in_the_policy_containers_start_and_are_placed_once_it_works(broken: str) -> None:
    site, policy = fragile()
    await site.open()
    await site.run("before", OWNS_2)
    policy.broken.add(broken)
    container = (await site.kubelet.run_pod(PodSpec("a", (OWNS_2,)))).container_id("c")
    assert site.runtime.node.containers[container].running
    assert CpuSet.parse(site.cpus(container)).isdisjoint(CpuSet.parse("0,4-5"))
    policy.broken.clear()
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)


async def test_a_container_that_could_not_be_decided_on_gets_the_last_known_shared_set() -> None:
    site, policy = fragile()
    await site.open()
    await site.run("before", OWNS_2)
    policy.broken.update({"decide", "reinstate"})
    container = (await site.run("a", OWNS_2)).container_id("c")
    assert site.recorded()[container] == ("1-3,6-7", "0-1")
    assert GRANT_KEY not in site.runtime.node.containers[container].config.annotations
    assert any("ZeroDivisionError" in error for error in site.log.errors)


async def test_under_reject_a_fault_of_ours_refuses_the_container() -> None:
    site, policy = fragile(REJECT)
    await site.open()
    policy.broken.add("decide")
    with pytest.raises(CallFailed, match="CreateContainer failed: ZeroDivisionError") as refused:
        await site.run("a", OWNS_2)
    assert (refused.value.code, site.live()) == (13, [])


async def test_a_fault_at_start_does_not_stop_containers() -> None:
    """Nothing is known then, so they pass as they came; once it works they are placed."""
    site, policy = fragile()
    site.clock = clock = ManualClock()  # type: ignore[assignment]  # the same protocol
    policy.broken.add("reinstate")
    opening = asyncio.get_running_loop().create_task(site.open())
    await soon(lambda: clock.waiting == 1)  # before it tries again; and looks at what there is by then
    assert site.log.errors
    container = (await site.kubelet.run_pod(PodSpec("a", (OWNS_2,)))).container_id("c")
    assert site.runtime.node.containers[container].running
    policy.broken.clear()
    await clock.advance(AFTER_FAULT_SECONDS)
    await opening
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)


@pytest.mark.parametrize("name", HELD)
async def test_a_message_that_cannot_be_read_is_the_runtimes_to_refuse(name: str) -> None:
    site, _ = fragile()
    await site.open()
    assert isinstance(await site.interceptor.on_request(Call(1, RUNTIME + name, b"\xff")), Forward)
    assert site.log.errors == []


@pytest.mark.parametrize("name", [name for name in HELD if name != "RestorePod"])  # nothing of it is read
async def test_under_reject_a_message_that_cannot_be_read_is_refused_and_no_fault_of_ours(name: str) -> None:
    site, _ = fragile(REJECT)
    await site.open()
    verdict = await site.interceptor.on_request(Call(1, RUNTIME + name, b"\xff"))
    assert isinstance(verdict, Refuse)
    assert (verdict.code, site.log.errors) == (3, [])
    assert verdict.message.startswith(f"cri-proxy: {name}: the request cannot be read: ")


async def test_a_container_of_a_request_that_only_the_runtime_could_read_is_placed_all_the_same(site: Site) -> None:
    container = (await direct(site).run_pod(PodSpec("a", (OWNS_2,)))).container_id("c")
    call = Call(1, CREATE, b"\xff")
    assert isinstance(await site.interceptor.on_request(call), Forward)
    site.interceptor.on_outcome(call, Replied(pb.CreateContainerResponse(container_id=container).SerializeToString()))
    await site.node.settle()
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)


async def test_an_answer_that_cannot_be_read_is_reported_and_the_runtime_is_asked_what_it_made(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    request = create_request(spec, OWNS_2, sandbox, node=site.kubelet.node).SerializeToString()
    call = Call(1, CREATE, request)
    await site.interceptor.on_request(call)
    site.interceptor.on_outcome(call, Replied(b"\xff"))
    assert site.log.warnings == ["unreadable_reply"]
    await site.node.settle()
    assert site.node.context.ledger.active() == ()


@pytest.mark.parametrize("reply", [b"\xff", b""])
async def test_an_unplaced_container_of_an_unusable_id_is_found_by_the_list(reply: bytes, site: Site) -> None:
    container = (await direct(site).run_pod(PodSpec("a", (OWNS_2,)))).container_id("c")
    call = Call(1, CREATE, b"\xff")
    await site.interceptor.on_request(call)
    site.interceptor.on_outcome(call, Replied(reply))
    await site.node.settle()
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)
    assert site.node.adoption.unplaced() == ()


@pytest.mark.parametrize("reply", [b"\xff", b""])
async def test_a_sandbox_without_a_usable_id_is_not_remembered_and_its_containers_are_placed(
    reply: bytes, site: Site
) -> None:
    site.runtime.faults.rewrite("RunPodSandbox", lambda _, __: reply)
    spec = PodSpec("a", (OWNS_2,))
    with suppress(DecodeError, CallFailed):  # the kubelet asks for the status of what has no id
        await site.kubelet.run_sandbox(spec)
    assert (site.node.context.ledger.sandboxes, site.log.warnings) == ({}, ["unreadable_reply"])
    (sandbox,) = site.runtime.node.sandboxes
    container = await site.kubelet.create(spec, OWNS_2, sandbox)
    assert len(owned(site, container)) == 2


async def test_a_sandbox_of_anothers_id_does_not_take_its_place(site: Site) -> None:
    first = await site.kubelet.run_sandbox(PodSpec("a", (OWNS_2,)))
    before = site.node.context.ledger.sandboxes[first]
    reply = pb.RunPodSandboxResponse(pod_sandbox_id=first).SerializeToString()
    site.runtime.faults.rewrite("RunPodSandbox", lambda _, __: reply)
    await site.kubelet.run_sandbox(PodSpec("b", (OWNS_2,)))
    assert site.node.context.ledger.sandboxes == {first: before}


@pytest.mark.parametrize("reply", [b"\xff", b"\x12\x00"])
async def test_a_restored_pod_that_cannot_be_read_is_no_fault(reply: bytes, site: Site) -> None:
    call = Call(1, RUNTIME + "RestorePod", b"")
    await site.interceptor.on_request(call)
    site.interceptor.on_outcome(call, Replied(reply))
    await site.node.settle()
    assert site.log.errors == []


async def test_while_nothing_is_known_of_the_node_a_create_waits_for_a_bound_and_is_refused() -> None:
    site, _ = fragile()
    site.runtime.go_away()
    opening = asyncio.get_running_loop().create_task(site.open())
    await asyncio.sleep(0)
    spec = PodSpec("a", (OWNS_2,))
    request = create_request(spec, OWNS_2, "s", node=site.kubelet.node).SerializeToString()
    impatient = CriInterceptor(site.node, Reader(0, Config(), no_hints), ready_bound_seconds=0.01)
    verdict = await impatient.on_request(Call(1, CREATE, request))
    assert isinstance(verdict, Refuse)
    assert (verdict.code, "try again" in verdict.message) == (14, True)
    opening.cancel()
    await asyncio.wait([opening])
    await site.node.close()


async def test_a_restored_pods_containers_are_placed(site: Site) -> None:
    pod = await direct(site).run_pod(PodSpec("restored", (OWNS_2,)))
    container = pod.container_id("c")
    reply = pb.RestorePodResponse()
    reply.restored_containers.add(container_id=container)
    call = Call(1, RUNTIME + "RestorePod", b"")
    await site.interceptor.on_request(call)
    site.interceptor.on_outcome(call, Replied(reply.SerializeToString()))
    await site.node.settle()
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)


async def test_a_container_made_without_us_is_placed_at_the_latest_when_it_starts(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,))
    container = await direct(site).create(spec, OWNS_2, await direct(site).run_sandbox(spec))
    await site.kubelet.start(container)
    assert CpuSet.parse(site.cpus(container)) == owned(site, container)


@pytest.mark.parametrize("there_before", [True, False])
async def test_adopt_leave_is_about_containers_that_were_there_before_us(there_before: bool) -> None:
    async with opened(Site(rules=Config(adopt="leave"))) as site:
        spec = PodSpec("a", (OWNS_2,))
        container = await direct(site).create(spec, OWNS_2, await direct(site).run_sandbox(spec))
        if there_before:
            await site.open()
        await site.kubelet.start(container)
        assert (site.node.context.ledger.holder(container) is None) == there_before


async def test_a_start_before_its_create_is_the_runtimes_to_refuse(site: Site) -> None:
    with pytest.raises(CallFailed) as refused:
        await site.kubelet.start("unknown")
    assert refused.value.code == 5


async def test_a_shortened_id_stands_for_the_container_as_it_does_for_containerd(site: Site) -> None:
    await site.run("s", ContainerSpec("c", cpu_request_mcpu=500))
    spec = PodSpec("a", (OWNS_2,))
    sandbox = await site.kubelet.run_sandbox(spec)
    container = await site.kubelet.create(spec, OWNS_2, sandbox[:12])
    await site.kubelet.start(container[:12])
    row = site.row(container)
    assert (row.state, row.sandbox_id) == ("running", sandbox)
    await site.kubelet.remove_pod(sandbox[:12])
    assert site.node.context.ledger.holder(container) is None


@pytest.mark.parametrize("method", ["stop", "remove"])
async def test_a_release_comes_with_the_reply_never_with_the_request(method: str, site: Site) -> None:
    container = (await site.run("a", OWNS_2)).container_id("c")
    site.runtime.faults.fail_next("StopContainer", 2, "no")
    site.runtime.faults.fail_next("RemoveContainer", 2, "no")
    with pytest.raises(CallFailed):
        await getattr(site.kubelet, method)(container)
    assert len(owned(site, container)) == 2
    await getattr(site.kubelet, method)(container)
    assert site.node.context.ledger.allocations.grants == ()


async def test_a_removal_of_what_the_runtime_does_not_know_releases_it(site: Site) -> None:
    container = (await site.run("a", OWNS_2)).container_id("c")
    del site.runtime.node.containers[container]
    with pytest.raises(CallFailed):
        await site.kubelet.stop(container)
    assert site.node.context.ledger.allocations.grants == ()


async def test_a_stop_without_an_answer_has_the_runtime_asked(site: Site) -> None:
    container = (await site.run("a", OWNS_2)).container_id("c")
    call = Call(99, RUNTIME + "StopContainer", pb.StopContainerRequest(container_id=container).SerializeToString())
    await site.interceptor.on_request(call)
    site.runtime.exit(container)
    site.interceptor.on_outcome(call, Aborted(sent=True))
    await site.node.settle()
    assert site.node.context.ledger.allocations.grants == ()


async def test_a_pod_cannot_forge_a_grant(site: Site) -> None:
    spec = PodSpec("a", (ContainerSpec("c"),))
    request = create_request(spec, spec.containers[0], await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
    request.config.annotations[GRANT_KEY] = "forged"
    await site.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    assert site.live()[0].config.annotations[GRANT_KEY].startswith("{")


async def test_what_is_sent_on_once_is_forgotten(site: Site) -> None:
    site.interceptor.on_outcome(Call(7, CREATE, b""), Replied(b""))
    assert site.node.context.ledger.allocations.grants == ()


async def test_a_kubelets_cpuset_does_not_pass_even_when_we_fail() -> None:
    site, policy = fragile()
    await site.open()
    pod = await site.run("a", OWNS_2)
    policy.broken.add("all")
    linux = pb.LinuxContainerResources(cpu_quota=100_000, cpu_period=100_000, cpuset_cpus="0-7")
    before = site.cpus(pod.container_id("c"))
    await site.kubelet.update(pod.container_id("c"), linux)
    assert site.cpus(pod.container_id("c")) == before
    assert site.runtime.record(pod.container_id("c")).cpu_quota == 100_000


async def test_a_create_without_the_pods_configuration_takes_the_one_that_was_remembered(site: Site) -> None:
    spec = PodSpec("a", (OWNS_2,), annotations=(("cri-proxy.io/prefer-shared-cpus", "true"),))
    sandbox_id = await site.kubelet.run_sandbox(spec)
    request = create_request(spec, OWNS_2, sandbox_id, node=site.kubelet.node)
    request.ClearField("sandbox_config")
    await site.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    (row,) = site.node.context.ledger.active()
    assert (row.grant.request.pod.name, row.grant.kind) == ("a", CpuKind.SHARED)


async def test_the_sums_of_a_pod_are_noted_when_they_change(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    sums = pb.LinuxContainerResources(cpu_shares=4096)
    request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod.sandbox_id, resources=sums)
    await site.kubelet.call("UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse)
    known = pb.PodSandboxConfig.FromString(site.node.context.ledger.sandboxes[pod.sandbox_id].config)
    assert known.linux.resources.cpu_shares == 4096


PRESERVED = (("cri-proxy.io/cpu.preserve", "true"),)


async def test_a_pod_that_would_not_be_pinned_is_kept_off_the_cpus_of_owners_before_and_after_it(site: Site) -> None:
    owners = [(await site.run("before", OWNS_2)).container_id("c")]
    pod = PodSpec("greedy", (ContainerSpec("c", cpu_request_mcpu=100),), annotations=PRESERVED)
    greedy = (await site.kubelet.run_pod(pod)).container_id("c")
    owners.append((await site.run("after", OWNS_2)).container_id("c"))
    await site.node.settle()
    taken = CpuSet.of_masks(owned(site, owner).mask for owner in owners)
    assert site.row(greedy).grant.kind is CpuKind.SHARED
    assert CpuSet.parse(site.cpus(greedy)).isdisjoint(taken)


@pytest.mark.parametrize(
    ("namespace", "rules"),
    [
        ("kube-system", Config()),
        ("shop", Config(restricted_annotations=(Restriction(("cpu.preserve",), ("*",)),))),
        ("infra", Config(policy_options=(TopologyAwareOptions(reserved_namespaces=("infra",)),))),
    ],
)
async def test_where_the_operator_trusts_a_namespace_its_pods_may_opt_out(namespace: str, rules: Config) -> None:
    site = Site(rules=rules)
    await site.open()
    pod = PodSpec("free", (ContainerSpec("c", cpu_request_mcpu=100),), namespace=namespace, annotations=PRESERVED)
    container = (await site.kubelet.run_pod(pod)).container_id("c")
    assert site.row(container).grant.kind is CpuKind.PRESERVE


async def test_a_container_that_was_not_pinned_before_stays_so_until_it_is_created_again(site: Site) -> None:
    spec = PodSpec("old", (ContainerSpec("c", cpu_request_mcpu=100),), annotations=PRESERVED)
    pod = await direct(site).run_pod(spec)  # as before the proxy was there
    before = site.cpus(pod.container_id("c"))
    await site.node.resync.check_all("slow check")
    await site.node.settle()
    assert site.cpus(pod.container_id("c")) == before
    again = await site.kubelet.create(spec, spec.containers[0], pod.sandbox_id, attempt=1)
    assert site.row(again).grant.kind is CpuKind.SHARED
