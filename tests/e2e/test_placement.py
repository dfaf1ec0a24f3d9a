"""The kernel confirms each kind of placement, on two CPUs of which none is reserved."""

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus
from tests.testbed.inside import allowed_inside

SHARED = ContainerSpec("c0", cpu_request_mcpu=100)


async def test_a_shared_container_runs_on_every_cpu_of_its_pool(stage: Stage, two: TwoCpus) -> None:
    assert await stage.cpus(await stage.run("shared", SHARED)) == two.both


async def test_a_guaranteed_container_has_a_cpu_of_its_own(stage: Stage, two: TwoCpus) -> None:
    cpus = await stage.cpus(await stage.run("alone", guaranteed("c0", 1000)))
    assert len(cpus) == 1
    assert cpus <= two.both


async def test_an_exclusive_cpu_leaves_the_shared_set_and_comes_back(stage: Stage, two: TwoCpus) -> None:
    shared = await stage.run("shared", SHARED)
    alone = await stage.run("alone", guaranteed("c0", 1000))
    assert await stage.cpus(shared) == two.both - await stage.cpus(alone)
    await stage.kubelet.remove_pod(alone.sandbox_id)
    assert await stage.gets(shared, two.both)


async def test_others_are_off_the_cpu_before_the_first_instruction_of_its_owner(stage: Stage, two: TwoCpus) -> None:
    """The new container's first deed is to read the mask of the other one's process, through the host's /proc."""
    shared = await stage.run("shared", SHARED)
    pid = await stage.direct.pid(shared.container_id("c0"))
    look = f"grep Cpus_allowed_list /host/{pid}/status; grep Cpus_allowed_list /proc/self/status; sleep 1000000"
    spec = PodSpec("alone", (guaranteed("c0", 1000),), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    request = create_request(spec, spec.containers[0], sandbox_id, node=stage.containerd.node)
    request.config.command[:] = ["/bin/sh", "-c", look]
    request.config.mounts.add(container_path="/host", host_path="/proc", readonly=True)
    reply = await stage.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    assert await stage.cpus(shared) <= two.both
    await stage.kubelet.start(reply.container_id)
    theirs, ours = [CpuSet.parse(line.split()[1]) for line in await stage.printed(spec, lines=2)]
    assert theirs.isdisjoint(ours)
    assert theirs | ours == two.both


async def test_a_mixed_container_has_its_own_cpu_and_the_shared_one(stage: Stage, two: TwoCpus) -> None:
    shared = await stage.run("shared", SHARED)
    mixed = await stage.run("mixed", guaranteed("c0", 1500))
    assert await stage.cpus(mixed) == two.both
    assert len(await stage.cpus(shared)) == 1


async def test_a_pod_that_prefers_to_share_gets_no_cpu_of_its_own(stage: Stage, two: TwoCpus) -> None:
    pod = PodSpec("p", (guaranteed("c0", 1000),), annotations=(("cri-proxy.io/prefer-shared-cpus", "true"),))
    assert await stage.cpus(await stage.kubelet.run_pod(pod)) == two.both


async def test_a_container_that_asks_for_nothing_shares(stage: Stage, two: TwoCpus) -> None:
    assert await stage.cpus(await stage.run("nothing", ContainerSpec("c0"))) == two.both


async def test_containers_get_memory_nodes_that_exist(stage: Stage) -> None:
    pod = await stage.run("memory", guaranteed("c0", 1000))
    allowed = await allowed_inside(stage.direct, pod.container_id("c0"))
    recorded = await stage.resources(pod.container_id("c0"))
    assert str(allowed.mems) == recorded["cpu"]["mems"]
