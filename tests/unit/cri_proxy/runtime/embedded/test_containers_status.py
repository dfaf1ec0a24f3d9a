import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_status import Existing, read_status
from cri_proxy.runtime.embedded.containers import cgroups_path
from policies.base import QosClass
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


async def existing(modern: bool, *, verbose: bool = True) -> Existing:
    calls = Calls(ScriptedRuntime(small_machine(), modern=modern))
    pod = await calls.pod(cgroup_parent="/kubepods/burstable/podu")
    container = await calls.running(pod, cpus="0-1", mems="0")
    await calls.update(container, cpuset_cpus="1")
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod)
    sandbox = (await calls.call("PodSandboxStatus", request, pb.PodSandboxStatusResponse)).status
    return read_status(await calls.status(container, verbose=verbose), sandbox)


@pytest.mark.parametrize("modern", [True, False])
async def test_the_verbose_status_reads_like_containerds(modern: bool) -> None:
    found = await existing(modern)
    assert (str(found.cpus), str(found.mems), found.pid > 0) == ("1", "0", True)
    assert (found.request.pod.qos, found.request.cpu_request_mcpu) == (QosClass.BURSTABLE, 1000)


async def test_an_older_runtime_tells_resources_only_verbosely() -> None:
    assert (await existing(False, verbose=False)).cpus is None
    assert str((await existing(True, verbose=False)).cpus) == "1"


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("/kubepods/podu", "/kubepods/podu/c1"),
        ("kubepods-podu.slice", "kubepods-podu.slice:cri-containerd:c1"),
        ("/kubepods.slice/kubepods-podu.slice", "kubepods-podu.slice:cri-containerd:c1"),
    ],
)
def test_the_cgroup_is_named_for_either_driver(parent: str, path: str) -> None:
    assert cgroups_path(parent, "c1") == path
