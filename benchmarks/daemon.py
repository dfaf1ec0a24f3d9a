"""How soon the daemon serves and decides after its start, and its memory. Run: python benchmarks/daemon.py.

The runtime is the embedded one in a process of its own; the daemon is ``cri-proxy run`` as a child, in an environment
as a node has it (``installed``), with a watched configuration file and 100 containers in the store. It accepts calls
when the runtime's answer to a Version comes through it, and decides when /readyz is good. Both are from the fork,
against starting Python alone in the same round, and in CPU seconds, which neighbours lengthen less; these and memory
are those of the daemon and all its helper processes (``memory``), the memory also with the pod resources API on, which
an exporter has asked then, and after owners have come to a full node: each takes its CPUs from hundreds of containers,
which are updated for that. Bars: docs/design.md, spec/relay.md.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.embedded_runtime import MACHINE, start_runtime
from benchmarks.installed import environment, install
from benchmarks.memory import Memory, cpu_seconds, family, memory_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import RuntimeUnavailable
from cri_proxy.http.page import page_routes
from cri_proxy.kubelet.lister.lister import LIST
from cri_proxy.kubelet.lister.lister import MACHINE as MACHINE_RESOURCES
from cri_proxy.kubelet.proto import podresources_v1_pb2 as podresources
from cri_proxy.node.node import POLL_SECONDS
from cri_proxy.runtime.client import RuntimeClient
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.daemon import run_arguments
from tests.testbed.pod_kubelet import PodKubelet

PROCESSES_AT_REST = 3  # the daemon, the launcher of helpers, the store's helper
ROUNDS = 7
CONTAINERS = 500
OWNERS = 10  # of CPUs, which they take from the others, with three pods beside each
QUESTIONS = 50
SCRAPES = 200
SCRAPE_BAR_SECONDS = 0.01
ACCEPTING_BAR_SECONDS = 0.3
IDLE_BAR_MB, LOADED_BAR_MB = 40, 50
ALL_BAR_MB = 60  # with the helper processes
ENVIRONMENT = environment()


@dataclass(frozen=True, slots=True)
class Started:
    """A daemon, and after how many seconds, of the clock and of its CPU time, it served and decided."""

    process: "subprocess.Popen[bytes]"
    accepting: float
    accepting_cpu: float
    ready: float
    ready_cpu: float


class Bench:
    """A runtime process, and daemons that come and go in front of it."""

    def __init__(self, directory: Path) -> None:
        """Everything is written below ``directory``."""
        self.directory = directory
        self.admin = directory / "admin.sock"
        self.runtime_endpoint = f"unix://{directory}/runtime.sock"
        root = write_tree(directory / "machine", describe(MACHINE))
        options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=2")
        self.words = run_arguments(directory, self.runtime_endpoint, options)
        program = install(directory / "venv")
        self.python = program.with_name("python")
        self.arguments = (str(program), *self.words, "--config", str(self._config()))
        self.endpoint = f"unix://{directory}/cri-proxy.sock"
        self.pod_resources = f"unix://{directory}/pods/kubelet.sock"

    def _config(self) -> Path:
        path = self.directory / "config.yaml"
        path.write_text(f"log: {{level: warning, format: json}}\nkubeletRoot: {self.directory}/kubelet\n")
        return path

    def start_runtime(self) -> "subprocess.Popen[bytes]":
        """Start the embedded runtime and the kubelet's list, in a process of their own."""
        path = Path(self.runtime_endpoint.removeprefix("unix://"))
        kubelet = self.directory / "kubelet" / "pod-resources" / "kubelet.sock"
        kubelet.parent.mkdir(parents=True)
        return start_runtime(path, kubelet, pods=CONTAINERS + OWNERS * 4)  # those of run_pods

    def start_daemon(self, *more: str) -> Started:
        """A daemon with ``more`` options that decides, and how long that took."""
        begin = time.monotonic()
        process = subprocess.Popen((*self.arguments, *more), env=ENVIRONMENT)
        try:
            asyncio.run(_answered(self.endpoint))
            accepting, worked = time.monotonic() - begin, cpu_seconds(*family(process.pid))
            _wait_for(lambda: self.admin.exists() and _is_ready(self.admin))
        except BaseException:
            stop_process(process)
            raise
        return Started(process, accepting, worked, time.monotonic() - begin, cpu_seconds(*family(process.pid)))

    async def run_pods(self, first: int, count: int, *, mcpu: int = 150) -> None:
        """Pods of one container through the daemon; every fourth is Guaranteed, with so much CPU."""
        channel = RuntimeClient(self.endpoint)
        kubelet = PodKubelet(channel, KubeletNode(64 << 30, log_directory=""))
        for i in range(first, first + count):
            spec = guaranteed("c", mcpu) if i % 4 == 0 else ContainerSpec("c", cpu_request_mcpu=50)
            await kubelet.run_pod(PodSpec(f"pod-{i}", (spec,)))
        for _ in range(50):
            await kubelet.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
        await channel.close()

    def for_exporters(self) -> Memory:
        """The memory of a daemon that answers the pod resources API too, after an exporter's questions."""
        daemon = self.start_daemon("--pod-resources-listen", self.pod_resources).process
        try:
            owners = asyncio.run(_owners(self.pod_resources))
            scrape_seconds(self.admin, daemon.pid)
            print(f"the pod resources API listed, with the CPUs of {owners} containers that own some")
            return memory_at_rest(daemon.pid)
        finally:
            stop_process(daemon)


async def _owners(endpoint: str) -> int:
    """Ask as an exporter does each few seconds; return how many containers own CPUs."""
    channel = RuntimeClient(endpoint)
    for _ in range(QUESTIONS):
        await channel.unary(MACHINE_RESOURCES, b"", timeout_seconds=20)
        answer = await channel.unary(LIST, b"", timeout_seconds=20)
    await channel.close()
    pods = podresources.ListPodResourcesResponse.FromString(answer).pod_resources
    return sum(bool(container.cpu_ids) for pod in pods for container in pod.containers)


async def _answered(endpoint: str, bound_seconds: float = 60.0) -> None:
    """Wait until the runtime's version comes through this socket."""
    channel = RuntimeClient(endpoint)
    async with asyncio.timeout(bound_seconds):
        while True:
            with contextlib.suppress(RuntimeUnavailable):
                await channel.unary("/runtime.v1.RuntimeService/Version", b"", timeout_seconds=5)
                break
            await asyncio.sleep(0.005)
    await channel.close()


def _is_ready(admin: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(5)
        asking.connect(str(admin))
        asking.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return b" 200 " in asking.recv(4096).split(b"\r\n")[0]
    return False


def _wait_for(condition: Callable[[], bool], bound_seconds: float = 60.0) -> None:
    end = time.monotonic() + bound_seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("nothing came up in time")
        time.sleep(0.005)


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(timeout=30)


def scrape_seconds(admin: Path, pid: int) -> float:
    """The daemon's CPU time for one answer to /metrics: on the loop that relays calls."""
    before = cpu_seconds(pid)
    for _ in range(SCRAPES):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(admin))
            asking.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: asking.recv(1 << 16), b""))
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"/metrics answers {answer[:40]!r}")
    return (cpu_seconds(pid) - before) / SCRAPES


@contextlib.contextmanager
def open_page(admin: Path) -> Iterator[None]:
    """Load the page and its files as a browser does, and read its stream meanwhile, on a thread of its own."""
    for target in page_routes():
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(admin))
            asking.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            if not b"".join(iter(lambda: asking.recv(1 << 16), b"")).startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"{target} is not served")
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(admin))
        stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reading = threading.Thread(target=lambda: [*iter(lambda: stream.recv(1 << 20), b"")])
        reading.start()
        try:
            yield
        finally:
            stream.shutdown(socket.SHUT_RDWR)
            reading.join()


def python_seconds(python: Path) -> float:
    """Starting the interpreter with nothing but what the command line needs to say its version."""
    begin = time.monotonic()
    subprocess.run([str(python), "-IS", "-c", "import argparse, asyncio, sqlite3"], check=True)
    return time.monotonic() - begin


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        runtime = bench.start_runtime()
        try:
            daemon = bench.start_daemon().process
            scrape_seconds(bench.admin, daemon.pid)
            idle = memory_at_rest(daemon.pid)
            stop_process(daemon)
            idle_exporting = bench.for_exporters()
            daemon = bench.start_daemon().process
            asyncio.run(bench.run_pods(0, 100))
            stop_process(daemon)
            starts, python = [], []
            for _ in range(ROUNDS):
                python.append(python_seconds(bench.python))
                starts.append(bench.start_daemon())
                stop_process(starts[-1].process)
            daemon = bench.start_daemon().process
            asyncio.run(bench.run_pods(100, CONTAINERS - 100))
            scrape = scrape_seconds(bench.admin, daemon.pid)
            loaded = memory_at_rest(daemon.pid)
            with open_page(bench.admin):
                shown = memory_at_rest(daemon.pid)
            asyncio.run(bench.run_pods(CONTAINERS, OWNERS * 4, mcpu=1000))
            scrape_seconds(bench.admin, daemon.pid)
            owning = memory_at_rest(daemon.pid)
            stop_process(daemon)
            exporting = bench.for_exporters()
        finally:
            stop_process(runtime)
    report_start(starts, median(python))
    bar = f"bar {SCRAPE_BAR_SECONDS * 1000:g} ms"
    print(f"one scrape of /metrics with 500 containers: {scrape * 1000:.1f} ms of CPU ({bar})")
    report_memory(idle, loaded, shown=shown, owning=owning, idle_exporting=idle_exporting, exporting=exporting)


def report_memory(
    idle: Memory, loaded: Memory, *, shown: Memory, owning: Memory, idle_exporting: Memory, exporting: Memory
) -> None:
    """Print the figures against their bars. Raises SystemExit where one is missed."""
    kept = [
        is_kept(what, megabytes, bar)
        for what, megabytes, bar in (
            ("resident memory of the daemon, idle and scraped", idle.first_mb, IDLE_BAR_MB),
            ("resident memory of the daemon, with 500 containers, scraped", loaded.first_mb, LOADED_BAR_MB),
            ("that while the page is open", shown.first_mb, LOADED_BAR_MB),
            (f"that with its {loaded.processes - 1} helper processes, each page once", loaded.all_mb, ALL_BAR_MB),
            (f"after {OWNERS} more that own CPUs, and {OWNERS * 3} beside them", owning.first_mb, LOADED_BAR_MB),
            (f"that with its {owning.processes - 1} helper processes", owning.all_mb, ALL_BAR_MB),
            ("with the pod resources API on and asked, idle", idle_exporting.first_mb, IDLE_BAR_MB),
            (
                f"with the pod resources API on and asked, {CONTAINERS + OWNERS * 4} containers",
                exporting.first_mb,
                LOADED_BAR_MB,
            ),
            (f"that with its {exporting.processes - 1} helper processes", exporting.all_mb, ALL_BAR_MB),
        )
    ]
    print(f"idle with its {idle.processes - 1} helper processes, each page once: {idle.all_mb:.1f} MB")
    if not all(kept):
        raise SystemExit("more memory than it may take")


def memory_at_rest(pid: int) -> Memory:
    """The memory once the daemon has made its slow check and helpers without work have ended."""
    time.sleep(POLL_SECONDS + 2)
    while len(family(pid)) > PROCESSES_AT_REST:  # until the next look at the configuration they have ended
        time.sleep(0.5)
    return memory_of(pid)


def is_kept(what: str, megabytes: float, bar_mb: int) -> bool:
    """Whether a bar is kept, and say so."""
    kept = megabytes <= bar_mb
    print(f"{what}: {megabytes:.1f} MB (bar {bar_mb} MB, {'kept' if kept else 'missed'})")
    return kept


def report_start(starts: Sequence[Started], python_seconds: float) -> None:
    """The figures of the starts, the first against its bar."""
    bar = f" (bar {ACCEPTING_BAR_SECONDS} s)"
    for what, seconds, worked in (
        (f"accepts calls{bar}", [start.accepting for start in starts], [start.accepting_cpu for start in starts]),
        ("decides", [start.ready for start in starts], [start.ready_cpu for start in starts]),
    ):
        middle = median(seconds)
        print(
            f"{what}: median {middle:.3f} s, {min(seconds):.3f} to {max(seconds):.3f}; {median(worked):.2f} s of CPU; "
            f"{middle / python_seconds:.1f} x starting Python alone"
        )


if __name__ == "__main__":
    main()
