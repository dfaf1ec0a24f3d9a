"""What a relay costs: the splice against a direct connection and against ``--relay grpc``, in one run.

    python -m benchmarks.relay [--quick] [--loop uvloop|asyncio] [-o text|json]

Three processes: a fake runtime, the relay (its CPU is read from /proc, all threads), and the load. The variants take
turns, and medians over the rounds are compared, so that a busy machine blurs the figures but not the ratios.
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hpack
import psutil

from benchmarks.light_http2 import (
    CREATE,
    EVENTS,
    EVENTS_IN_A_STREAM,
    LIST,
    VERSION,
    LightClient,
    LightServer,
    Load,
    header_blocks,
)
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.relay.calls import Call, Forward, Interest, Outcome, Rewrite, Verdict
from cri_proxy.relay.message import pack

VARIANTS: Final = ("direct", "splice", "grpc")
_IDLE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of load. ``units``: what the CPU is divided by, for each call."""

    name: str
    method: str
    calls: int
    in_flight: int = 1
    units: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """One round of one variant: CPU of the relay for each unit, and the call times. CPU 0 without a relay."""

    cpu_us: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a relay holds and does at rest."""

    rss_idle_mb: float
    rss_loaded_mb: float
    idle_cpu_us_per_second: float
    threads: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio that must hold."""

    name: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether it does."""
        return self.measured <= self.limit


def scenarios(*, quick: bool) -> tuple[Scenario, ...]:
    """The loads of one round."""
    scale = 1 if quick else 2
    return (
        Scenario("Version, 1 in flight", VERSION, 400 * scale),
        Scenario("Version, 16 in flight", VERSION, 1500 * scale, in_flight=16),
        Scenario("CreateContainer rewritten", CREATE, 250 * scale),
        Scenario("ListContainers (500)", LIST, 20 * scale),
        Scenario("GetContainerEvents", EVENTS, 2 * scale, units=EVENTS_IN_A_STREAM),
    )


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

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Nothing to keep."""


# The other processes


def run_loop(work: Coroutine[object, object, None], loop: str) -> None:
    """Run this on the chosen event loop."""
    if loop == "uvloop":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


async def serve_runtime(path: str) -> None:
    """The fake runtime's process."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    server = await asyncio.get_running_loop().create_unix_server(LightServer, sock=listening)
    print("ready", flush=True)
    await server.serve_forever()


async def serve_relay(kind: str, listen: str, runtime: str) -> None:
    """The relay's process."""
    if kind == "grpc":
        from cri_proxy.relay.grpc_relay import GrpcRelay as Relay
    else:
        from cri_proxy.relay.server import SpliceRelay as Relay  # type: ignore[assignment]
    relay = Relay(listen=listen, runtime=runtime, interceptor=Pinner())
    await relay.start()
    print("ready", flush=True)
    await asyncio.Event().wait()
    await relay.stop(0)


@contextmanager
def process(*arguments: str) -> Iterator[psutil.Process]:
    """One of our processes, once it is ready."""
    command = [sys.executable, "-m", "benchmarks.relay", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            if child.stdout is None or child.stdout.readline().strip() != "ready":
                raise RuntimeError(f"{' '.join(arguments)} did not start")
            yield psutil.Process(child.pid)
        finally:
            child.kill()


def cpu_us(pid: int) -> float:
    """CPU time of all threads so far (proc(5): schedstat, first field, nanoseconds)."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


# Measuring


async def measure(scenario: Scenario, path: str, relay: psutil.Process | None) -> Figure:
    """One round of one variant, after a warm-up on the same connection."""
    _, client = await asyncio.get_running_loop().create_unix_connection(LightClient, path)
    encoder = hpack.Encoder()
    body = pack(create_request() if scenario.method == CREATE else b"")
    warm = max(1, scenario.calls // 10)
    await client.run(Load(header_blocks(scenario.method, warm, encoder), body, scenario.in_flight))
    load = Load(header_blocks(scenario.method, scenario.calls, encoder), body, scenario.in_flight)
    before = cpu_us(relay.pid) if relay else 0.0
    seconds = await client.run(load)
    spent = (cpu_us(relay.pid) if relay else 0.0) - before
    client.transport.close()
    ordered = sorted(second * 1e6 for second in seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Figure(spent / scenario.calls / scenario.units, statistics.median(ordered), p99)


def median(figures: list[Figure], field: Callable[[Figure], float]) -> float:
    """The median of one field over the rounds."""
    return statistics.median(field(figure) for figure in figures)


def bars(results: dict[str, dict[str, list[Figure]]], feet: dict[str, Footprint]) -> list[Bar]:
    """The bars of the relay's specification that need no other program."""

    def ratio(name: str) -> float:
        figures = results[name]
        return median(figures["splice"], lambda f: f.cpu_us) / median(figures["grpc"], lambda f: f.cpu_us)

    version = results["Version, 1 in flight"]
    direct = median(version["direct"], lambda f: f.p50_us)
    added = median(version["splice"], lambda f: f.p50_us) - direct
    return [
        Bar("Version, 1 in flight: CPU of splice / grpc", ratio("Version, 1 in flight"), 0.15),
        Bar("Version, 16 in flight: CPU of splice / grpc", ratio("Version, 16 in flight"), 0.06),
        Bar("ListContainers (500): CPU of splice / grpc", ratio("ListContainers (500)"), 0.3),
        Bar("GetContainerEvents: CPU of splice / grpc", ratio("GetContainerEvents"), 0.06),
        Bar("Version: p50 that the splice adds, us", added, 150.0),
        Bar("Version: p50 that the splice adds, us (aim)", added, 60.0),
        Bar("Version: p50 that the splice adds / direct", added / direct, 1.0),
        Bar("Version: p50 that the splice adds / direct (aim)", added / direct, 0.4),
        Bar("splice at rest: CPU us/s", feet["splice"].idle_cpu_us_per_second, 100.0),
    ]


def footprint(relay: psutil.Process, rss_idle: int) -> Footprint:
    """A relay at rest, after the load."""
    before = cpu_us(relay.pid)
    time.sleep(_IDLE_SECONDS)
    spent = (cpu_us(relay.pid) - before) / _IDLE_SECONDS
    megabyte = 1024 * 1024
    return Footprint(rss_idle / megabyte, relay.memory_info().rss / megabyte, spent, relay.num_threads())


async def rounds(
    loads: tuple[Scenario, ...],
    count: int,
    paths: dict[str, str],
    relays: dict[str, psutil.Process],
) -> dict[str, dict[str, list[Figure]]]:
    """All scenarios, the variants in turn."""
    results: dict[str, dict[str, list[Figure]]] = {load.name: {variant: [] for variant in VARIANTS} for load in loads}
    for _ in range(count):
        for load in loads:
            for variant in VARIANTS:
                results[load.name][variant].append(await measure(load, paths[variant], relays.get(variant)))
    return results


def show(results: dict[str, dict[str, list[Figure]]], feet: dict[str, Footprint], limits: list[Bar]) -> None:
    """The tables."""
    print(f"{'load':28}{'relay':8}{'CPU us':>10}{'x grpc':>8}{'p50 us':>10}{'p99 us':>10}{'p50 x direct':>14}")
    for name, variants in results.items():
        grpc_cpu = median(variants["grpc"], lambda f: f.cpu_us)
        direct_p50 = median(variants["direct"], lambda f: f.p50_us)
        for variant, figures in variants.items():
            cpu, p50, p99 = (
                median(figures, lambda f: f.cpu_us),
                median(figures, lambda f: f.p50_us),
                median(figures, lambda f: f.p99_us),
            )
            used = f"{cpu:10.1f}{cpu / grpc_cpu:8.3f}" if variant != "direct" else f"{'-':>10}{'-':>8}"
            print(f"{name:28}{variant:8}{used}{p50:10.0f}{p99:10.0f}{p50 / direct_p50:14.2f}")
    print(f"\n{'relay':8}{'RSS idle MB':>12}{'loaded MB':>11}{'idle CPU us/s':>15}{'threads':>9}")
    for variant, foot in feet.items():
        print(
            f"{variant:8}{foot.rss_idle_mb:12.1f}{foot.rss_loaded_mb:11.1f}"
            f"{foot.idle_cpu_us_per_second:15.0f}{foot.threads:9}"
        )
    print()
    for bar in limits:
        print(f"{'met ' if bar.met else 'MISS'} {bar.name}: {bar.measured:.3f} (limit {bar.limit:g})")


def compare(*, quick: bool, loop: str, output: str) -> int:
    """Run everything. 0 when every bar but the aim is met."""
    with tempfile.TemporaryDirectory() as directory:
        paths = {variant: str(Path(directory, f"{variant}.sock")) for variant in VARIANTS}
        with (
            process("--role", "runtime", paths["direct"], "--loop", loop),
            process("--role", "splice", paths["splice"], paths["direct"], "--loop", loop) as splice,
            process("--role", "grpc", paths["grpc"], paths["direct"], "--loop", loop) as grpc,
        ):
            relays = {"splice": splice, "grpc": grpc}
            rss = {variant: relay.memory_info().rss for variant, relay in relays.items()}
            results = asyncio.run(rounds(scenarios(quick=quick), 2 if quick else 5, paths, relays))
            feet = {variant: footprint(relay, rss[variant]) for variant, relay in relays.items()}
    limits = bars(results, feet)
    if output == "json":
        medians = {
            name: {
                v: {
                    "cpu_us": median(f, lambda x: x.cpu_us),
                    "p50_us": median(f, lambda x: x.p50_us),
                    "p99_us": median(f, lambda x: x.p99_us),
                }
                for v, f in variants.items()
            }
            for name, variants in results.items()
        }
        print(
            json.dumps(
                {
                    "loads": medians,
                    "bars": [{"name": b.name, "measured": b.measured, "limit": b.limit, "met": b.met} for b in limits],
                },
                indent=1,
            )
        )
    else:
        show(results, feet, limits)
    return 0 if all(bar.met for bar in limits if "(aim)" not in bar.name) else 1


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about 15 seconds instead of a minute")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--role", choices=["runtime", "splice", "grpc"], help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "runtime":
        run_loop(serve_runtime(options.paths[0]), options.loop)
    elif options.role:
        run_loop(serve_relay(options.role, *options.paths), options.loop)
    else:
        return compare(quick=options.quick, loop=options.loop, output=options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
