from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed, sandbox_config
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.pods import Attempt, KnownPod, Pods
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.simulate.snapshot import ContainerStates, reasons_for
from sysfs.descriptions.machine import describe

SCENARIO = parse_scenario("machine: host\nsteps: [create: {pod: web, qos: guaranteed, containers: []}]")


async def look(*, overwrite: str = "", end: bool = False) -> tuple[dict[str, str], tuple[str, ...]]:
    """What is seen of a container of one CPU (of four, one reserved), after what happened to it."""
    simulated, pods = SimulatedNode(describe({"cores": 4}), {"reservedResources": {"cpu": "1"}}), Pods(SCENARIO)
    await simulated.recover()
    container = guaranteed("c0", 1000)
    spec = pods.planned(SCENARIO.steps[0].action)  # type: ignore[arg-type]  # the step above is a create
    spec = type(spec)(spec.name, (container,), declared_qos=spec.qos)
    request = pb.RunPodSandboxRequest(config=sandbox_config(PodSpec("web", (container,)), simulated.kubelet.node))
    sandbox = await simulated.kubelet.call("RunPodSandbox", request, pb.RunPodSandboxResponse)
    create = create_request(spec, container, sandbox.pod_sandbox_id, node=simulated.kubelet.node)
    container_id = await simulated.kubelet.create_as(create)
    pods.put(KnownPod(spec, sandbox.pod_sandbox_id, (Attempt(container, container_id, 0),)))
    await simulated.kubelet.start(container_id)
    await simulated.settle()
    if overwrite:
        simulated.runtime.node.containers[container_id].record.cpuset_cpus = overwrite
    if end:
        simulated.runtime.exit(container_id)
    seen = ContainerStates(simulated, pods).read()["web/c0"].json_value()
    reasons = reasons_for(simulated, dict(pods.containers())["web/c0"])
    await simulated.close()
    return {key: str(seen[key]) for key in ("cpus", "exclusive", "shared", "state")}, reasons


async def test_the_runtimes_record_is_seen_with_what_the_ledger_says_of_it() -> None:
    seen, reasons = await look()
    assert seen == {"cpus": "1", "exclusive": "1", "shared": "", "state": "running"}
    assert any("1 exclusive CPU" in reason for reason in reasons)


async def test_what_somebody_else_wrote_is_seen_as_it_is() -> None:
    assert (await look(overwrite="1-3"))[0]["cpus"] == "1-3"


async def test_an_ended_container_is_seen_with_nothing() -> None:
    assert (await look(end=True))[0] == {"cpus": "", "exclusive": "", "shared": "", "state": "exited"}
