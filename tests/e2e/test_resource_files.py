"""A container reads at ``/.cri-proxy`` which CPUs are whose, and sees it change."""

import json
import signal

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus
from tests.testbed.inside import output_of
from tests.testbed.wait import until

SHARED = ContainerSpec("c0", cpu_request_mcpu=100)
TELL = ("cri-proxy.io/resource-files", "true")
NOTES = "/notes"
COMMAND = json.dumps(["/bin/sh", "-c", f". /.cri-proxy/resources.sh; echo $SHARED_CPUS >> {NOTES}"])


async def told_pod(stage: Stage, *annotations: tuple[str, str]) -> RunningPod:
    pod = PodSpec("told", (SHARED,), namespace="e2e", annotations=tuple(sorted((TELL, *annotations))))
    return await stage.kubelet.run_pod(pod)


async def reads(stage: Stage, pod: RunningPod, variable: str) -> CpuSet:
    script = f". /.cri-proxy/resources.sh && echo ${{{variable}?}}"
    return CpuSet.parse(await output_of(stage.direct, pod.container_id("c0"), "/bin/sh", "-euc", script))


async def comes_to_read(stage: Stage, pod: RunningPod, cpus: CpuSet) -> bool:
    """True once the container reads that these CPUs are shared. Raises TryoutError."""

    async def does() -> bool:
        return await reads(stage, pod, "SHARED_CPUS") == cpus

    return await until(f"{pod.spec.name} reads {cpus}", does, seconds=SETTLE_SECONDS)


async def test_a_container_with_a_cpu_of_its_own_reads_which_it_is(stage: Stage) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    assert await reads(stage, alone, "EXCLUSIVE_CPUS") == await stage.cpus(alone)
    assert await reads(stage, alone, "SHARED_CPUS") == CpuSet()


async def test_the_program_itself_finds_the_files_with_its_first_instruction(stage: Stage) -> None:
    script = ". /.cri-proxy/resources.sh; echo exclusive $EXCLUSIVE_CPUS; exec sleep 1000000"
    first = ContainerSpec(
        "c0", 1000, 1000, memory_request_bytes=32 << 20, memory_limit_bytes=32 << 20, command=("/bin/sh", "-c", script)
    )
    alone = await stage.run("first", first)
    (line,) = await stage.printed(alone.spec, lines=1)
    assert CpuSet.parse(line.removeprefix("exclusive ")) == await stage.cpus(alone)


async def test_a_running_container_sees_the_shared_set_shrink_and_grow(stage: Stage, two: TwoCpus) -> None:
    told = await told_pod(stage)
    assert await reads(stage, told, "SHARED_CPUS") == two.both
    alone = await stage.run("alone", guaranteed("c0", 1000))
    await comes_to_read(stage, told, two.both - await stage.cpus(alone))
    await stage.kubelet.remove_pod(alone.sandbox_id)
    await comes_to_read(stage, told, two.both)


async def test_programs_find_the_same_as_json(stage: Stage, two: TwoCpus) -> None:
    told = await told_pod(stage)
    text = await output_of(stage.direct, told.container_id("c0"), "/bin/cat", "/.cri-proxy/resources.json")
    plain = json.loads(text)
    assert (plain["kind"], plain["shared_cpus"], plain["generation"] > 0) == ("shared", str(two.both), True)


async def test_a_container_cannot_write_what_it_is_told(stage: Stage) -> None:
    told = await told_pod(stage)
    script = "echo x > /.cri-proxy/resources.sh || echo refused"
    assert "refused" in await output_of(stage.direct, told.container_id("c0"), "/bin/sh", "-c", script)


async def test_who_shares_and_does_not_ask_has_no_such_directory(stage: Stage) -> None:
    shared = await stage.run("shared", SHARED)
    script = "test -e /.cri-proxy && echo there || echo absent"
    assert (await output_of(stage.direct, shared.container_id("c0"), "/bin/sh", "-c", script)).strip() == "absent"


async def test_a_running_container_goes_on_being_told_after_the_proxy_was_killed(stage: Stage, two: TwoCpus) -> None:
    told = await told_pod(stage)
    await stage.daemon.restart(signal.SIGKILL)
    alone = await stage.run("alone", guaranteed("c0", 1000))
    await comes_to_read(stage, told, two.both - await stage.cpus(alone))


async def test_the_host_keeps_nothing_of_a_pod_that_is_gone(stage: Stage) -> None:
    told = await told_pod(stage)
    directory = stage.daemon.directory / "state" / "containers"

    async def is_empty() -> bool:
        return not any(directory.iterdir())

    assert not await is_empty()
    await stage.kubelet.remove_pod(told.sandbox_id)
    await until("the directory is collected", is_empty, seconds=SETTLE_SECONDS)


async def test_a_containers_own_command_hears_of_each_change(stage: Stage, two: TwoCpus) -> None:
    told = await told_pod(stage, ("cri-proxy.io/notify-exec", COMMAND))
    container = told.container_id("c0")

    async def notes() -> list[str]:
        script = f"touch {NOTES}; cat {NOTES}"
        return (await output_of(stage.direct, container, "/bin/sh", "-c", script)).split()

    assert await notes() == []
    alone = await stage.run("alone", guaranteed("c0", 1000))
    left = two.both - await stage.cpus(alone)

    async def heard() -> bool:
        return str(left) in await notes()

    await until("the command ran", heard, seconds=SETTLE_SECONDS)


async def test_a_read_only_root_and_a_restart_are_no_obstacle(stage: Stage) -> None:
    """The second attempt of the container, without a place to write to but ours, which it cannot write to either."""
    first = await stage.run("again", guaranteed("c0", 1000))
    before = await reads(stage, first, "EXCLUSIVE_CPUS")
    await stage.kubelet.stop(first.container_id("c0"))
    request = create_request(
        first.spec, first.spec.containers[0], first.sandbox_id, node=stage.containerd.node, attempt=1
    )
    request.config.linux.security_context.readonly_rootfs = True
    reply = await stage.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    await stage.kubelet.start(reply.container_id)
    second = RunningPod(first.spec, first.sandbox_id, (("c0", reply.container_id),))
    assert await reads(stage, second, "EXCLUSIVE_CPUS") == before == await stage.cpus(second)
