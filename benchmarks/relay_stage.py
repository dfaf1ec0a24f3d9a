"""The processes of the relay benchmark, and one round of calls through them.

A runtime (our light one, a small one in Go, or a containerd of our own), a relay of each kind in front of it, and the
caller: our light client in this process, one on gRPC's C core or one in Go in its own. The CPU of a relay, and that of
the runtime in Go when it is called without one, is read from /proc, all threads.
"""

import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import hpack
import psutil

from benchmarks.light_http2 import CREATE, LightClient, LightServer, Load, header_blocks
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.message import pack
from cri_proxy.relay.calls import Call, Forward, Interest, Outcome, Rewrite, Verdict

VARIANTS: Final = ("direct", "splice", "grpc")
ROOT: Final = Path(__file__).resolve().parent.parent
_SELF: Final = (sys.executable, "-m", "benchmarks.relay")
LIGHT, CONTAINERD, C_CORE, GO = "light", "containerd", "C core", "Go"
_GO_ENDS: Final = ROOT / "benchmarks" / "go_ends"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of load. ``units``: what the CPU is divided by, for each call; ``client`` and ``runtime``: the ends."""

    name: str
    method: str
    calls: int
    in_flight: int = 1
    units: int = 1
    client: str = LIGHT
    runtime: str = LIGHT


@dataclass(frozen=True, slots=True)
class Figure:
    """One round of one variant: CPU of the process that is counted for each unit (see ``Way``), and the call times."""

    cpu_us: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class Way:
    """How the caller reaches a runtime: a socket, and the process whose CPU is counted.

    That is the relay that listens there, or the runtime in Go; of other runtimes none.
    """

    path: str
    counted: psutil.Process | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The process of the client on gRPC's C core."""

    asks: IO[str]
    answers: IO[str]
    go_ends: Path


def create_request() -> bytes:
    """A CreateContainerRequest of about 4 kB, as the kubelet sends."""
    request = pb.CreateContainerRequest(pod_sandbox_id="0" * 64)
    for number in range(12):
        request.config.envs.add(key=f"SERVICE_{number}_PORT", value=b"tcp://10.0.0.%d:443" % number)
        request.config.mounts.add(container_path=f"/mnt/{number}", host_path=f"/var/lib/kubelet/pods/{number:064d}")
        request.config.annotations[f"example.com/annotation-{number}"] = "v" * 40
        request.sandbox_config.labels[f"example.com/label-{number}"] = "v" * 40
    request.config.linux.resources.cpu_shares = 2048
    return request.SerializeToString()


class Pinner:
    """Rewrites CreateContainer as a policy does, passes the rest."""

    def wants(self, method: str) -> Interest:
        """Hold CreateContainer only."""
        return Interest.HOLD if method == CREATE else Interest.PASS

    async def on_request(self, call: Call) -> Verdict:
        """Decode, set two fields, encode."""
        request = pb.CreateContainerRequest.FromString(call.message)
        resources = request.config.linux.resources
        resources.cpuset_cpus, resources.cpuset_mems = "2-3", "0"
        return Rewrite(request.SerializeToString()) if resources.cpu_shares else Forward()

    async def stand_in(self, method: str) -> None:
        """For no call."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Nothing to keep."""


async def serve_runtime(path: str) -> None:
    """The light runtime's process."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    server = await asyncio.get_running_loop().create_unix_server(LightServer, sock=listening)
    print("ready", flush=True)
    await server.serve_forever()


async def serve_relay(kind: str, listen: str, runtime: str) -> None:
    """The relay's process."""
    if kind == "grpc":
        from cri_proxy.relay.grpcio.relay import GrpcRelay as Relay
    else:
        from cri_proxy.relay.server import SpliceRelay as Relay  # type: ignore[assignment]
    relay = Relay(listen=listen, runtime=runtime, interceptor=Pinner())
    await relay.start()
    print("ready", flush=True)
    await asyncio.Event().wait()
    await relay.stop(0)


@contextmanager
def _child(*arguments: str, program: tuple[str, ...] = _SELF) -> Iterator["subprocess.Popen[str]"]:
    """One of our processes, once it is ready."""
    command = [*program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        try:
            if child.stdout is None or child.stdout.readline().strip() != "ready":
                raise RuntimeError(f"{' '.join(arguments)} did not start")
            yield child
        finally:
            child.kill()


@contextmanager
def process(*arguments: str, program: tuple[str, ...] = _SELF) -> Iterator[psutil.Process]:
    """One of our processes, to be looked at."""
    with _child(*arguments, program=program) as child:
        yield psutil.Process(child.pid)


@contextmanager
def caller(go_ends: Path) -> Iterator[Caller]:
    """The client on gRPC's C core, and the program of the one in Go."""
    with _child("--role", "caller") as child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the caller has no pipes")
        yield Caller(child.stdin, child.stdout, go_ends)


def build_go_ends(directory: Path) -> tuple[Path, str]:
    """Build the ends in Go; return the program, and why it could not be built ('' when it was)."""
    program = directory / "go_ends"
    if shutil.which("go") is None:
        return program, "Go 1.23 or later is not installed"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=_GO_ENDS, capture_output=True, text=True, check=False
    )
    return program, built.stderr.strip()


@contextmanager
def relays(directory: Path, runtime: str, path: str) -> Iterator[dict[tuple[str, str], Way]]:
    """The ways to a runtime that listens at ``path``: without a relay, and through one of each kind."""
    through = {kind: str(directory / f"{kind}-{runtime}.sock") for kind in VARIANTS[1:]}
    with (
        process("--role", "splice", through["splice"], path) as splice,
        process("--role", "grpc", through["grpc"], path) as grpc,
    ):
        yield {
            (runtime, "direct"): Way(path),
            (runtime, "splice"): Way(through["splice"], splice),
            (runtime, "grpc"): Way(through["grpc"], grpc),
        }


def cpu_us(process: psutil.Process | None) -> float:
    """CPU time of all threads so far (proc(5): schedstat, first field, nanoseconds); 0 for no process."""
    if process is None:
        return 0.0
    tasks = Path("/proc", str(process.pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


async def measure(scenario: Scenario, way: Way, other: Caller) -> Figure:
    """One round of one variant, after a warm-up on the same connection. ``other`` calls where we do not."""
    if scenario.client == LIGHT:
        spent, seconds = await _call_lightly(scenario, way)
    elif scenario.client == GO:
        spent, seconds = _have_go_call(scenario, way, other)
    else:
        spent, seconds = _have_called(scenario, way, other)
    ordered = sorted(second * 1e6 for second in seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Figure(spent / scenario.calls / scenario.units, statistics.median(ordered), p99)


async def _call_lightly(scenario: Scenario, way: Way) -> tuple[float, list[float]]:
    _, client = await asyncio.get_running_loop().create_unix_connection(LightClient, way.path)
    encoder = hpack.Encoder()
    body = pack(create_request() if scenario.method == CREATE else b"")
    warm = max(1, scenario.calls // 10)
    await client.run(Load(header_blocks(scenario.method, warm, encoder), body, scenario.in_flight))
    load = Load(header_blocks(scenario.method, scenario.calls, encoder), body, scenario.in_flight)
    before = cpu_us(way.counted)
    seconds = await client.run(load)
    spent = cpu_us(way.counted) - before
    client.transport.close()
    return spent, seconds


def _have_called(scenario: Scenario, way: Way, other: Caller) -> tuple[float, list[float]]:
    print(json.dumps({"path": way.path, "method": scenario.method, "calls": scenario.calls}), file=other.asks)
    other.asks.flush()
    other.answers.readline()  # it is warm
    before = cpu_us(way.counted)
    print("go", file=other.asks, flush=True)
    seconds: list[float] = json.loads(other.answers.readline())
    return cpu_us(way.counted) - before, seconds


def _have_go_call(scenario: Scenario, way: Way, other: Caller) -> tuple[float, list[float]]:
    arguments = ("call", way.path, scenario.method, str(scenario.calls), str(scenario.in_flight))
    with _child(*arguments, program=(str(other.go_ends),)) as child:  # ready: it is warm
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the caller has no pipes")
        before = cpu_us(way.counted)
        print("go", file=child.stdin, flush=True)
        seconds: list[float] = json.loads(child.stdout.readline())
        return cpu_us(way.counted) - before, seconds
