"""Run one try-out: start runtime and daemon, run the pods, compare decisions with the kernel, report, clean up."""

import asyncio
import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import KubeletNode
from cri_proxy.errors import CallFailed, CriProxyError
from cri_proxy.node.status.decision_views import Explanation
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from sysfs.cpuset import CpuSet
from sysfs.text import plural
from tests.testbed.child import run
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import LOG, AdminSocket, DaemonProcess, program
from tests.testbed.errors import TryoutError
from tests.testbed.inside import allowed_inside, output_of
from tests.testbed.kernel import own_allowed
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until
from tests.tryout.embedded import EmbeddedDaemon, described_machine
from tests.tryout.external_runtime import ExternalRuntime
from tests.tryout.report import RESOURCES_FILE, Observation, describe_all, larger_machine
from tests.tryout.workloads import DemoPod, demo_pods, omitted_pods, reserved_cpus

PRIVATE, EMBEDDED = "private", "embedded"
SETTLE_SECONDS = 20.0
STATUS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a tryout: ``runtime`` is 'private', 'embedded' or an endpoint; ``image`` one of the endpoint, or ''.

    Everything is written below a new directory in ``scratch`` (None: the system's temporary directory).
    """

    runtime: str
    image: str = ""
    keeps_serving: bool = False
    scratch: Path | None = None
    colours: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon in front of a runtime; ``runtime`` and ``confirmed_by`` are phrases for the report."""

    runtime: str
    endpoint: str
    admin: AdminSocket
    node: KubeletNode
    cpu_count: int
    confirmed_by: str


async def hold_session(plan: Plan, *, say: Callable[[str], None]) -> bool:
    """Run the pods, report, keep serving if wanted, clean up; return True when every placement is confirmed."""
    run_id = uuid.uuid4().hex[:8]
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-tryout-", dir=plan.scratch))
    try:
        async with _open_target(plan, directory, run_id) as target:
            confirmed = await _run_demo(plan, target, run_id, say=say)
            if plan.keeps_serving:
                say(_usage_hint(target))
                await asyncio.Event().wait()
            return confirmed
    except CriProxyError:
        if tail := log_tail(directory / LOG):
            say(f"The end of the daemon's log:\n{tail}")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def log_tail(log: Path, *, lines: int = 20) -> str:
    """Return the end of a log; '' when there is none."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


async def _run_demo(plan: Plan, target: Target, run_id: str, *, say: Callable[[str], None]) -> bool:
    client = RuntimeClient(target.endpoint)
    kubelet = PodKubelet(client, target.node)
    try:
        say(await _introduction(kubelet, target))
        demo = demo_pods(target.cpu_count, run=run_id)
        pods = [await _run_pod(kubelet, demo_pod, say) for demo_pod in demo]
        observations = await _wait_for_confirmation(kubelet, target, list(zip(demo, pods, strict=True)))
        status = [*program(), "status", "--admin", str(target.admin.path)]
        say((await asyncio.to_thread(run, status, seconds=STATUS_SECONDS)).rstrip())
        say(describe_all(observations, confirmed_by=target.confirmed_by, colours=plan.colours))
        if missing := omitted_pods(target.cpu_count):
            say(missing)
        if len((await target.admin.status()).pools) == 1:
            say(larger_machine(_command()))
        if not plan.keeps_serving:
            for pod in pods:
                if pod is not None:
                    await kubelet.remove_pod(pod.sandbox_id)
        return all(observation.is_confirmed for observation in observations)
    finally:
        await client.close()


async def _run_pod(kubelet: PodKubelet, demo_pod: DemoPod, say: Callable[[str], None]) -> RunningPod | None:
    """Run a pod; return None, with a line about the reason, when it is refused."""
    try:
        return await kubelet.run_pod(demo_pod.pod)
    except CallFailed as failure:
        say(f"{demo_pod.pod.namespace}/{demo_pod.pod.name} was refused: {failure.message}")
        return None


async def _wait_for_confirmation(
    kubelet: PodKubelet, target: Target, started: list[tuple[DemoPod, RunningPod | None]]
) -> tuple[Observation, ...]:
    """Return an observation of every container, once all are confirmed or time is up.

    The reply to a pod does not wait until the CPUs of others have grown.
    """
    seen: tuple[Observation, ...] = ()

    async def all_confirmed() -> bool:
        nonlocal seen
        seen = tuple(chain.from_iterable([await _observe(kubelet, target, *pair) for pair in started]))
        return all(observation.is_confirmed for observation in seen)

    with suppress(TryoutError):  # the report shows which are not
        await until("the kernel confirms", all_confirmed, seconds=SETTLE_SECONDS)
    return seen


async def _observe(kubelet: PodKubelet, target: Target, demo_pod: DemoPod, pod: RunningPod | None) -> list[Observation]:
    decisions = {d.decision.key.name: d for d in (await target.admin.explain(demo_pod.pod.pod_uid)).decisions}
    ids = dict(pod.containers) if pod else {}
    return [
        Observation(
            demo_pod.pod,
            container,
            demo_pod.shows,
            decision := decisions.get(container.name),
            await allowed_inside(kubelet, ids[container.name]) if container.name in ids else None,
            await _own_cpus_inside(kubelet, target, decision, ids.get(container.name, "")),
        )
        for container in demo_pod.pod.containers
    ]


async def _own_cpus_inside(
    kubelet: PodKubelet, target: Target, decision: Explanation | None, container_id: str
) -> CpuSet | None:
    """Return the own CPUs in the container's resource file; None without a file or a real process."""
    held = decision.container if decision else None
    if held is None or not container_id or not held.exclusive | held.isolated or target.confirmed_by != "kernel":
        return None
    inside = json.loads(await output_of(kubelet, container_id, "/bin/cat", RESOURCES_FILE))
    return CpuSet.parse(inside["exclusive_cpus"]) | CpuSet.parse(inside["isolated_cpus"])


@asynccontextmanager
async def _open_target(plan: Plan, directory: Path, run_id: str) -> AsyncIterator[Target]:
    """Run the runtime and the daemon in front of it inside the block."""
    if plan.runtime == EMBEDDED:
        machine = described_machine()
        count = len(machine.online)
        # by default the CPUs of this machine would be the available ones
        options = (*_reserve(count), "--available-resources", f"cpu=cpuset:{machine.online}")
        async with EmbeddedDaemon(directory, machine=machine, options=options) as embedded:
            node = KubeletNode(16 << 30, log_directory=str(directory / "logs"), image=DEFAULT_IMAGE)
            sizes = f"{len(machine.packages)} packages and {len(machine.nodes)} NUMA nodes"
            phrase = f"simulated, on a described machine of {sizes}"
            yield Target(phrase, embedded.endpoint, embedded.admin, node, count, "model")
        return
    count = len(own_allowed().cpus)
    runtime: PrivateContainerd | ExternalRuntime
    options = _reserve(count)
    if plan.runtime == PRIVATE:
        description = f"its own, below {directory}"
        runtime = PrivateContainerd(directory / "runtime", name=directory.name)
    else:
        description = f"the one at {plan.runtime}"
        runtime = ExternalRuntime(plan.runtime, directory, run_id=run_id, image=plan.image)
        config = directory / "cri-proxy.yaml"
        config.write_text("adopt: leave\n")  # existing containers stay as they are
        options = (*options, "--config", str(config))
    async with runtime, DaemonProcess(directory, runtime_endpoint=runtime.endpoint, options=options) as daemon:
        yield Target(description, daemon.endpoint, daemon.admin, runtime.node, count, "kernel")


def _reserve(cpu_count: int) -> tuple[str, ...]:
    reserved = reserved_cpus(cpu_count)
    return ("--reserved-resources", f"cpu={reserved}") if reserved else ()


async def _introduction(kubelet: PodKubelet, target: Target) -> str:
    version = await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
    reserved = reserved_cpus(target.cpu_count)
    cpus = f"{plural(target.cpu_count, 'CPU')}{f', {reserved} reserved for the system' * reserved}"
    return f"""\
cri-proxy in front of {version.runtime_name} {version.runtime_version} ({target.runtime}).
{cpus}. Every container below was created through {target.endpoint}."""


def _command() -> str:
    return program()[0] if len(program()) == 1 else f"{sys.executable} -m cri_proxy.cli.main"


def _usage_hint(target: Target) -> str:
    command = _command()
    return f"""\
It keeps serving. From another terminal:
  {command} status --admin {target.admin.path} --watch
  {command} explain database --admin {target.admin.path}
  crictl --runtime-endpoint {target.endpoint} ps
Ctrl-C ends it and removes everything it made."""
