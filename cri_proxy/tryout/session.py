"""One try-out from end to end: a runtime, the daemon in front, pods, the report, and everything removed again."""

import asyncio
import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.errors import TryoutError
from cri_proxy.cri_client.kernel import own_allowed
from cri_proxy.cri_client.kubelet import Kubelet, RunningPod
from cri_proxy.cri_client.pods import Node
from cri_proxy.errors import CallFailed, CriProxyError
from cri_proxy.node.status.model import Explanation
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from cri_proxy.testbed.admin import AdminSocket
from cri_proxy.testbed.child import run
from cri_proxy.testbed.containerd import PrivateContainerd
from cri_proxy.testbed.daemon import LOG, DaemonProcess, program
from cri_proxy.testbed.wait import until
from cri_proxy.tryout.borrowed_runtime import RunningRuntime
from cri_proxy.tryout.embedded import EmbeddedDaemon, described_in_words, described_machine
from cri_proxy.tryout.report import TOLD_FILE, Paint, Sighting, describe_all
from cri_proxy.tryout.workloads import Role, cast, left_out, reserved_cpus
from sysfs.cpuset import CpuSet

PRIVATE, EMBEDDED = "private", "embedded"
SETTLE_SECONDS = 20.0
STATUS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to try: ``runtime`` is 'private', 'embedded' or an endpoint; ``image`` one that the endpoint has, or ''.

    Everything is written below a new directory in ``scratch`` (None: the system's place for temporary files).
    """

    runtime: str
    image: str = ""
    keeps_serving: bool = False
    scratch: Path | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What the pods are played on: whose runtime, the daemon's endpoint and admin socket, and who confirms."""

    whose: str
    endpoint: str
    admin: AdminSocket
    node: Node
    cpu_count: int
    witness: str


async def hold_session(plan: Plan, *, say: Callable[[str], None], paint: Paint) -> bool:
    """Play, report, keep serving if wanted, clean up; True when the kernel confirmed every placement."""
    run_id = uuid.uuid4().hex[:8]
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-tryout-", dir=plan.scratch))
    try:
        async with _ground(plan, directory, run_id) as ground:
            confirmed = await _perform(plan, ground, run_id, say=say, paint=paint)
            if plan.keeps_serving:
                say(_invitation(ground))
                await asyncio.Event().wait()
            return confirmed
    except CriProxyError:
        if words := last_words(directory / LOG):
            say(f"The daemon's last words:\n{words}")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def last_words(log: Path, *, lines: int = 20) -> str:
    """The end of a log; '' when there is none."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


async def _perform(plan: Plan, ground: Ground, run_id: str, *, say: Callable[[str], None], paint: Paint) -> bool:
    client = RuntimeClient(ground.endpoint)
    kubelet = Kubelet(client, ground.node)
    try:
        say(await _opening(kubelet, ground))
        roles = cast(ground.cpu_count, run=run_id)
        pods = [await _played(kubelet, role, say) for role in roles]
        sightings = await _settled(kubelet, ground, list(zip(roles, pods, strict=True)))
        say(await asyncio.to_thread(_tree, ground.admin.path))
        say(describe_all(sightings, witness=ground.witness, paint=paint))
        if missing := left_out(ground.cpu_count):
            say(missing)
        if not plan.keeps_serving:
            for pod in pods:
                if pod is not None:
                    await kubelet.remove_pod(pod.sandbox_id)
        return all(sighting.is_confirmed for sighting in sightings)
    finally:
        await client.close()


async def _played(kubelet: Kubelet, role: Role, say: Callable[[str], None]) -> RunningPod | None:
    """The pod, or None with a line that says why it was refused."""
    try:
        return await kubelet.run_pod(role.pod)
    except CallFailed as failure:
        say(f"{role.pod.namespace}/{role.pod.name} was refused: {failure.message}")
        return None


async def _settled(
    kubelet: Kubelet, ground: Ground, played: list[tuple[Role, RunningPod | None]]
) -> tuple[Sighting, ...]:
    """What is seen of every container, once all is confirmed or time is up: growth of others follows a reply."""
    seen: tuple[Sighting, ...] = ()

    async def all_confirmed() -> bool:
        nonlocal seen
        seen = tuple([sighting for role, pod in played for sighting in await _sightings(kubelet, ground, role, pod)])
        return all(sighting.is_confirmed for sighting in seen)

    try:
        await until("the kernel confirms", all_confirmed, seconds=SETTLE_SECONDS)
    except TryoutError:
        return seen  # the report shows which
    return seen


async def _sightings(kubelet: Kubelet, ground: Ground, role: Role, pod: RunningPod | None) -> tuple[Sighting, ...]:
    decisions = {d.decision.key.name: d for d in (await ground.admin.explain(role.pod.pod_uid)).decisions}
    ids = dict(pod.containers) if pod else {}
    return tuple(
        [
            Sighting(
                role.pod,
                container,
                role.shows,
                decision := decisions.get(container.name),
                await kubelet.allowed(ids[container.name]) if container.name in ids else None,
                await _reads(kubelet, ground, decision, ids.get(container.name, "")),
            )
            for container in role.pod.containers
        ]
    )


async def _reads(kubelet: Kubelet, ground: Ground, decision: Explanation | None, container_id: str) -> CpuSet | None:
    """What the container is told of its own CPUs; None where nothing is told, or nothing real could read it."""
    held = decision.container if decision else None
    if held is None or not container_id or not held.exclusive | held.isolated or ground.witness != "kernel":
        return None
    told = json.loads(await kubelet.execute(container_id, "/bin/cat", TOLD_FILE))
    return CpuSet.parse(told["exclusive_cpus"]) | CpuSet.parse(told["isolated_cpus"])


@asynccontextmanager
async def _ground(plan: Plan, directory: Path, run_id: str) -> AsyncIterator[Ground]:
    """The runtime and the daemon in front of it, for as long as the block lasts."""
    if plan.runtime == EMBEDDED:
        machine = described_machine()
        count = len(machine.online)
        # without this the CPUs of the machine that we are on would be the available ones
        options = (*_reserve(count), "--available-resources", f"cpu=cpuset:{machine.online}")
        async with EmbeddedDaemon(directory, machine=machine, options=options) as embedded:
            node = Node(16 << 30, log_directory=str(directory / "logs"), image=DEFAULT_IMAGE)
            yield Ground(described_in_words(machine), embedded.endpoint, embedded.admin, node, count, "model")
        return
    count = len(own_allowed().cpus)
    runtime: PrivateContainerd | RunningRuntime
    options = _reserve(count)
    if plan.runtime == PRIVATE:
        whose = f"its own, below {directory}"
        runtime = PrivateContainerd(directory / "runtime", name=directory.name)
    else:
        whose = f"the one at {plan.runtime}"
        runtime = RunningRuntime(plan.runtime, directory, run_id=run_id, image=plan.image)
        options = (*options, *_leave_others(directory))
    async with runtime, DaemonProcess(directory, runtime_endpoint=runtime.endpoint, options=options) as daemon:
        yield Ground(whose, daemon.endpoint, daemon.admin, runtime.node, count, "kernel")


def _reserve(cpu_count: int) -> tuple[str, ...]:
    reserved = reserved_cpus(cpu_count)
    return ("--reserved-resources", f"cpu={reserved}") if reserved else ()


def _leave_others(directory: Path) -> tuple[str, ...]:
    """A configuration under which the containers of a borrowed runtime stay as they are."""
    path = directory / "cri-proxy.yaml"
    path.write_text("adopt: leave\n")
    return ("--config", str(path))


async def _opening(kubelet: Kubelet, ground: Ground) -> str:
    version = await kubelet.call("Version", pb.VersionRequest(), pb.VersionResponse)
    reserved = reserved_cpus(ground.cpu_count)
    cpus = f"{ground.cpu_count} CPU{'s' * (ground.cpu_count > 1)}{f', {reserved} reserved for the system' * reserved}"
    return f"""\
cri-proxy in front of {version.runtime_name} {version.runtime_version} ({ground.whose}).
{cpus}. Every container below was created through {ground.endpoint}."""


def _tree(admin: Path) -> str:
    return run([*program(), "status", "--admin", str(admin)], seconds=STATUS_SECONDS).rstrip()


def _invitation(ground: Ground) -> str:
    command = program()[0] if len(program()) == 1 else f"{sys.executable} -m cri_proxy.cli.main"
    return f"""\
It keeps serving. From another terminal:
  {command} status --admin {ground.admin.path} --watch
  {command} explain database --admin {ground.admin.path}
  crictl --runtime-endpoint {ground.endpoint} ps
Ctrl-C ends it and removes everything it made."""
