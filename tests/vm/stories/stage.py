"""What the stories inside an emulated machine are played on: a containerd, the daemon in front, and the kernel asked.

Everything here runs in the guest, on nothing but the installed package. A story acts and looks; what must be so is
said by the tests on the host, which read the report.
"""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec
from cri_proxy.http.client import DaemonUnreachable
from cri_proxy.runtime.client import RuntimeClient
from sysfs.cpuset import CpuSet, NodeSet
from tests.testbed.cgroups import hierarchies
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import DaemonProcess
from tests.testbed.errors import TryoutError
from tests.testbed.kernel import read_allowed
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

OUT = Path("/out")
# The host bounds the whole run; here everything takes ten times as long as there, on a busy host longer still
PATIENCE_SECONDS = 300.0
PAGE_BYTES = 4096
STARTED = time.monotonic()


@dataclass(frozen=True, slots=True)
class Look:
    """One container as the kernel has it: what its first process may use, and what its cgroup's own file says."""

    cpus: CpuSet
    mems: NodeSet
    cpus_file: str
    pid: int


Looks = Mapping[str, Look]


def say(text: str) -> None:
    """A line with the time since the start."""
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


def cgroup_file(pid: int, controller: str, name: str) -> Path:
    """A file of this process's cgroup, on cgroup v1 or v2. Raises TryoutError where there is none."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    v1 = next((path for _, names, path in lines if controller in names.split(",")), None)
    path = v1 or next((path for number, _, path in lines if number == "0"), "/")
    candidates = (mount / path.lstrip("/") / name for mount in hierarchies())
    found = next((file for file in candidates if file.exists()), None)
    if found is None:
        raise TryoutError(name, f"no cgroup hierarchy has it at {path}")
    return found


def has_cgroup_v1() -> bool:
    return Path("/sys/fs/cgroup/cpuset").exists()


def has_systemd() -> bool:
    """Whether systemd is process 1 (sd_booted(3))."""
    return Path("/run/systemd/system").exists()


def held_bytes(pid: int) -> dict[str, int]:
    """Anonymous memory of this process's cgroup by node (memory.numa_stat: in pages on v1, in bytes on v2)."""
    lines = cgroup_file(pid, "memory", "memory.numa_stat").read_text().splitlines()
    line = next(line for line in lines if line.startswith("anon"))
    unit = PAGE_BYTES if line.startswith("anon=") else 1
    pairs = (word.split("=") for word in line.split() if word.startswith("N"))
    return {node[1:]: int(count) * unit for node, count in pairs}


class PatientClient(RuntimeClient):
    """Gives every call as long as the host gives the machine: stopping four pods at once took 20 s."""

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return await super().unary(method, message, timeout_seconds=PATIENCE_SECONDS)


class Notes:
    """What the host gets: by step, what was seen of which container, and facts besides."""

    def __init__(self) -> None:
        self.looks: dict[str, dict[str, dict[str, object]]] = {}
        self.facts: dict[str, object] = {}

    def fact(self, name: str, value: object) -> None:
        say(f"{name}: {value}")
        self.facts[name] = value

    def report(self, step: str, looks: dict[str, Look]) -> dict[str, Look]:
        self.looks[step] = {
            name: {**asdict(look), "cpus": str(look.cpus), "mems": str(look.mems)} for name, look in looks.items()
        }
        for name, look in looks.items():
            say(f"{step:<20} {name:<16} CPUs {look.cpus!s:<12} memory nodes {look.mems}")
        return looks

    def write(self) -> None:
        (OUT / "report.json").write_text(json.dumps({"looks": self.looks, "facts": self.facts}, indent=1))


class Stage(Notes):
    """The daemon in front of the containerd, and their pods."""

    def __init__(self, containerd: PrivateContainerd, daemon: DaemonProcess) -> None:
        super().__init__()
        self.daemon = daemon
        self.runtime_endpoint = containerd.endpoint
        # The machine is ours: pods have the cgroup that a kubelet gives them
        self.kubelet = PodKubelet(PatientClient(daemon.endpoint), replace(containerd.node, cgroup_root=""))
        self._pods: list[RunningPod] = []
        self._pids: dict[str, int] = {}

    async def run(self, spec: PodSpec) -> RunningPod:
        pod = await self.kubelet.run_pod(spec)
        self._pods.append(pod)
        for name, container_id in pod.containers:
            self._pids[f"{spec.name}/{name}"] = await self.kubelet.pid(container_id)
        say(f"{spec.name} runs")
        return pod

    async def remove(self, *pods: RunningPod) -> None:
        """Remove these pods, all of them when none is named."""
        leaving = pods or tuple(self._pods)
        await asyncio.gather(*(self.kubelet.remove_pod(pod.sandbox_id) for pod in leaving))
        self._pods = [pod for pod in self._pods if pod not in leaving]
        say(f"removed: {', '.join(pod.spec.name for pod in leaving) or 'nobody'}")

    def pid(self, name: str) -> int:
        return self._pids[name]

    def see(self) -> dict[str, Look]:
        """Every container that runs, by 'pod/container'."""
        names = (f"{pod.spec.name}/{name}" for pod in self._pods for name, _ in pod.containers)
        return {name: look_at(self._pids[name]) for name in names}

    def note(self, step: str) -> dict[str, Look]:
        return self.report(step, self.see())

    @contextmanager
    def daemon_stopped(self) -> Iterator[None]:
        """Inside the block the daemon stands still, so that nothing is repaired or given out halfway."""
        self.daemon.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemon.send(signal.SIGCONT)

    async def note_at_rest(self, step: str) -> None:
        await self.settle(step, lambda seen: True)

    async def settle(self, step: str, wish: Callable[[Looks], bool]) -> None:
        """Look until the wish is true and no update is under way: one that is may be seen in half.

        The last look is reported either way: the tests say what is wrong with it.
        """

        async def is_so() -> bool:
            return wish(self.see()) and await self._is_at_rest()

        start = time.monotonic()
        await patiently(step, is_so)
        self.facts[f"{step}: seconds"] = round(time.monotonic() - start, 1)
        self.report(step, self.see())

    async def _is_at_rest(self) -> bool:
        """Whether the runtime has confirmed what the daemon wants of every container."""
        try:
            containers = (await self.daemon.admin.status()).containers
        except DaemonUnreachable:
            return False
        return all((c.acknowledged_cpus, c.acknowledged_mems) == (c.cpus, c.mems) for c in containers)


async def patiently(what: str, check: Callable[[], Awaitable[bool]], *, seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the check came true in time."""
    try:
        return await until(what, check, seconds=seconds)
    except TryoutError as error:
        say(str(error))
        return False


def look_at(pid: int) -> Look:
    allowed = read_allowed(Path(f"/proc/{pid}/status").read_text())
    text = cgroup_file(pid, "cpuset", "cpuset.cpus").read_text().strip()
    return Look(allowed.cpus, allowed.mems, text, pid)


async def play(config: str, *stories: Callable[[Stage], Awaitable[None]]) -> None:
    """Start everything, play the stories one after another, each on an empty machine, and leave the report.

    The last story's pods are not stopped: the machine is thrown away, and emulated stopping is slow.
    """
    containerd = PrivateContainerd(Path("/var/lib/tryout"), systemd_cgroups=has_systemd())
    await containerd.start()
    say("containerd answers")
    (OUT / "cri-proxy.yaml").write_text(config)
    options = ("--config", str(OUT / "cri-proxy.yaml"))
    daemon = DaemonProcess(
        OUT / "cri-proxy", runtime_endpoint=containerd.endpoint, options=options, ready_seconds=PATIENCE_SECONDS
    )
    await daemon.start()
    say("the daemon is ready")
    stage = Stage(containerd, daemon)
    try:
        for story in stories:
            say(f"--- {story.__name__}")
            await stage.remove()
            await story(stage)
    finally:
        stage.write()
