"""A pod whose refusal is long: the kubelet has one connection, on which every other pod's calls are."""

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request
from cri_proxy.intercept.gate import RUNTIME
from tests.hostile.hostile_runtime import of
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO, SCRIPTED
from tests.relay.clients import GrpcioClient

POD = PodSpec("verbose", (ContainerSpec("c"),))
LEVEL = "s0" * 350_000
RETRIES = 3
OK, UNAVAILABLE = 0, 14


@ON_CONTAINERD_TOO
async def test_a_pod_with_a_label_of_700_kilobytes(node: AttackedNode, runtime: str) -> None:
    """The runtime repeats a pod's SELinux level in its refusal, at each retry: that call fails, and no other."""
    if runtime == SCRIPTED:
        node.runtime.refuse("CreateContainer", of(POD.name), 2, f"{LEVEL}: no such level: {LEVEL}")
    kubelet = GrpcioClient(str(node.socket))  # by its C core, as a kubelet it fails a call of long metadata alone
    async with node.under_attack():
        other = await kubelet.start(f"{RUNTIME}Version")  # begun on the same connection, and ended afterwards
        request = create_request(POD, POD.containers[0], await node.kubelet.run_sandbox(POD), node=node.kubelet.node)
        request.config.linux.security_context.selinux_options.CopyFrom(pb.SELinuxOption(level=LEVEL))
        for _ in range(RETRIES):
            refused = await kubelet.unary(f"{RUNTIME}CreateContainer", request.SerializeToString())
            assert refused.code not in (OK, UNAVAILABLE)
        await other.write(b"", last=True)
        assert (await other.end()).code == OK
    await kubelet.close()
