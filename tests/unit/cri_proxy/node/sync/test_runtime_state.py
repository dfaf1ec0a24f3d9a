import pytest

from cri_proxy.cri_client.pods import IMAGE, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import RuntimeUnavailable
from cri_proxy.node.sync import runtime_state
from policies.base import ContainerKey
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.testbed.pod_kubelet import PodKubelet

SPEC = PodSpec("web", (guaranteed("a", 1000), guaranteed("b", 1000)))


def runtime() -> ScriptedRuntime:
    return ScriptedRuntime(small_machine(), image_names=(IMAGE,))


async def test_a_list_tells_whose_each_container_is_and_whether_it_lives() -> None:
    node = runtime()
    pod = await PodKubelet(node, KubeletNode(1 << 30, log_directory="")).run_pod(SPEC)
    node.exit(pod.container_id("b"))
    found = await runtime_state.list_node(node)
    assert found.sandboxes == {pod.sandbox_id}
    states = {(c.key, c.state, c.is_live) for c in found.containers}
    uid = SPEC.pod_uid
    assert states == {(ContainerKey(uid, "a"), "running", True), (ContainerKey(uid, "b"), "exited", False)}


async def test_the_list_of_a_sandbox_holds_nothing_else() -> None:
    node = runtime()
    kubelet = PodKubelet(node, KubeletNode(1 << 30, log_directory=""))
    pods = [await kubelet.run_pod(PodSpec(name, SPEC.containers)) for name in ("web", "db")]
    found = await runtime_state.list_containers(node, {}, sandbox_id=pods[0].sandbox_id)
    assert {c.id for c in found.containers} == {container_id for _, container_id in pods[0].containers}
    uids = {c.key.pod_uid for c in found.containers}
    assert uids == {PodSpec("web", SPEC.containers).pod_uid}, "by the kubelet's label"


async def test_the_absence_of_the_runtime_is_the_callers_to_bear() -> None:
    node = runtime()
    node.go_away()
    with pytest.raises(RuntimeUnavailable):
        await runtime_state.list_node(node)
