import json

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


def new() -> Calls:
    return Calls(ScriptedRuntime(small_machine(), now_ns=lambda: 42))


async def listed(calls: Calls, **wanted: object) -> list[str]:
    request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(**wanted))  # type: ignore[arg-type]  # real names
    return [i.metadata.name for i in (await calls.call("ListPodSandbox", request, pb.ListPodSandboxResponse)).items]


async def stop(calls: Calls, pod: str) -> None:
    await calls.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod), pb.StopPodSandboxResponse)


async def test_the_runtime_is_ready() -> None:
    reply = await new().call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
    assert {c.type: c.status for c in reply.status.conditions} == {"RuntimeReady": True, "NetworkReady": True}


async def test_stopping_a_pod_ends_its_containers_and_may_be_repeated() -> None:
    calls = new()
    pod = await calls.pod()
    container = await calls.running(pod)
    await stop(calls, pod)
    await stop(calls, pod)
    status = (await calls.status(container)).status
    assert (status.state, status.exit_code, status.finished_at) == (pb.CONTAINER_EXITED, 137, 42)


async def test_removing_a_pod_removes_its_containers_and_frees_its_name() -> None:
    calls = new()
    pod = await calls.pod()
    await calls.running(pod)
    request = pb.RemovePodSandboxRequest(pod_sandbox_id=pod)
    await calls.call("RemovePodSandbox", request, pb.RemovePodSandboxResponse)
    assert not calls.runtime.node.containers
    assert await calls.pod() != pod


async def test_pods_are_listed_by_id_and_state() -> None:
    calls = new()
    pods = [await calls.pod("a"), await calls.pod("b")]
    await stop(calls, pods[1])
    assert await listed(calls) == ["a", "b"]
    assert await listed(calls, id=pods[0]) == ["a"]
    assert await listed(calls, state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)) == ["b"]
    assert await listed(calls, label_selector={"app": "x"}) == []


async def test_a_verbose_status_tells_the_configuration() -> None:
    calls = new()
    pod = await calls.pod(cgroup_parent="/kubepods/podu")
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod, verbose=True)
    reply = await calls.call("PodSandboxStatus", request, pb.PodSandboxStatusResponse)
    assert json.loads(reply.info["info"])["config"]["linux"]["cgroup_parent"] == "/kubepods/podu"
    assert (reply.status.state, reply.status.created_at) == (pb.SANDBOX_READY, 42)


async def test_a_resize_of_the_pod_is_remembered() -> None:
    calls = new()
    pod = await calls.pod()
    sums = pb.LinuxContainerResources(cpu_shares=99)
    request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod, resources=sums)
    await calls.call("UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse)
    assert calls.runtime.node.sandboxes[pod].config.linux.resources.cpu_shares == 99
