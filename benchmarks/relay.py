"""What a relay costs: the splice against a direct connection and against ``--relay grpc``, in one run.

    python -m benchmarks.relay [--quick] [-o text|json]

The variants take turns, each round begins with another, and medians over the rounds are compared, so that a busy
machine blurs the figures but not the ratios. The ends of most loads are our own light ones, which make a direct call
as cheap as it gets. Beside them stand the ends that a node has: a client on gRPC's C core; a containerd where one is
installed; client and runtime in Go where that is, whose CPU for a direct call is the measure of a relay's. The same
ends without a relay are "direct" in each row.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.light_http2 import CREATE, EVENTS, EVENTS_IN_A_STREAM, LIST, VERSION
from benchmarks.relay_stage import (
    C_CORE,
    CONTAINERD,
    GO,
    LIGHT,
    VARIANTS,
    Caller,
    Figure,
    Scenario,
    Way,
    build_go_ends,
    caller,
    cpu_us,
    measure,
    process,
    relays,
    serve_relay,
    serve_runtime,
)
from cri_proxy.relay.event_loop import RelayLoop
from tests.testbed.containerd import REMEDY, PrivateContainerd, missing_programs

_IDLE_SECONDS: Final = 2.0
_AIM: Final = "(aim)"
_ONE, _MANY = "Version, 1 in flight", "Version, 16 in flight"
_LISTS, _EVENTS = "ListContainers (500)", "GetContainerEvents"
# The CPU of the splice for a call, by that of a runtime in Go for a direct one, is at most this.
_GO_LIMITS: Final = {"Version in Go": 0.7, "Version in Go, 16 in flight": 0.4, "ListContainers (500) in Go": 1.0}

Results = Mapping[str, Mapping[str, list[Figure]]]
"""Figures by load and variant, one for each round."""

Ways = dict[tuple[str, str], Way]
"""How to reach each runtime in each variant."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a relay holds and does at rest."""

    rss_idle_mb: float
    rss_loaded_mb: float
    idle_cpu_us_per_second: float
    threads: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio that must hold, or with ``(aim)`` in its name one that should."""

    name: str
    measured: float
    limit: float

    @property
    def is_met(self) -> bool:
        """Whether it does."""
        return self.measured <= self.limit


def scenarios(*, quick: bool, runtimes: set[str]) -> tuple[Scenario, ...]:
    """The loads of one round, of those runtimes that are there."""
    scale = 1 if quick else 2
    all_of_them = (
        Scenario(_ONE, VERSION, 400 * scale),
        Scenario(_MANY, VERSION, 1500 * scale, in_flight=16),
        Scenario("CreateContainer rewritten", CREATE, 250 * scale),
        Scenario(_LISTS, LIST, 20 * scale),
        Scenario(_EVENTS, EVENTS, 2 * scale, units=EVENTS_IN_A_STREAM),
        Scenario("Version by C core", VERSION, 200 * scale, client=C_CORE),
        *(
            Scenario(name, method, calls * scale, in_flight=in_flight, client=GO, runtime=GO)
            for name, (method, calls, in_flight) in zip(
                _GO_LIMITS, ((VERSION, 700, 1), (VERSION, 2000, 16), (LIST, 40, 1)), strict=True
            )
        ),
        Scenario("Version of containerd", VERSION, 200 * scale, runtime=CONTAINERD),
        Scenario("Version of containerd by C core", VERSION, 200 * scale, client=C_CORE, runtime=CONTAINERD),
    )
    return tuple(scenario for scenario in all_of_them if scenario.runtime in runtimes)


def median(figures: list[Figure], field: Callable[[Figure], float]) -> float:
    """The median of one field over the rounds."""
    return statistics.median(field(figure) for figure in figures)


def _p50(figure: Figure) -> float:
    return figure.p50_us


def _cpu(figure: Figure) -> float:
    return figure.cpu_us


def bars(loads: tuple[Scenario, ...], results: Results, feet: Mapping[str, Footprint]) -> list[Bar]:
    """The bars of the relay's specification that need no other program."""

    def share(name: str) -> float:
        return median(results[name]["splice"], _cpu) / median(results[name]["grpc"], _cpu)

    limits = [
        Bar(f"{name}: CPU of splice / grpc", share(name), limit)
        for name, limit in ((_ONE, 0.15), (_MANY, 0.06), (_LISTS, 0.3), (_EVENTS, 0.06))
    ]
    direct, splice = (median(results[_ONE][variant], _p50) for variant in VARIANTS[:2])
    limits.append(Bar(f"{_ONE}: p50 that the splice adds, us", splice - direct, 150.0))
    limits.append(Bar(f"{_ONE}: p50 that the splice adds, us {_AIM}", splice - direct, 60.0))
    for name, limit in _GO_LIMITS.items():
        if name in results:
            spent, runtimes = (median(results[name][variant], _cpu) for variant in ("splice", "direct"))
            limits.append(Bar(f"{name}: CPU of splice / of the runtime for a direct call", spent / runtimes, limit))
    for load in loads:
        if load.method == VERSION and load.in_flight == 1 and load.runtime != GO:
            direct, splice = (median(results[load.name][variant], _p50) for variant in VARIANTS[:2])
            name, added = f"{load.name}: p50 that the splice adds / direct", (splice - direct) / direct
            limits += [Bar(name, added, 1.0), Bar(f"{name} {_AIM}", added, 0.4)]
    return [*limits, Bar("splice at rest: CPU us/s", feet["splice"].idle_cpu_us_per_second, 100.0)]


def footprint(way: Way, rss_idle: int) -> Footprint:
    """A relay at rest, after the load."""
    if way.counted is None:
        raise ValueError(f"{way.path} is no relay's")
    before = cpu_us(way.counted)
    time.sleep(_IDLE_SECONDS)
    spent = (cpu_us(way.counted) - before) / _IDLE_SECONDS
    megabyte = 1024 * 1024
    return Footprint(rss_idle / megabyte, way.counted.memory_info().rss / megabyte, spent, way.counted.num_threads())


async def rounds(loads: tuple[Scenario, ...], count: int, ways: Ways, other: Caller) -> Results:
    """All scenarios, the variants in turn."""
    results: dict[str, dict[str, list[Figure]]] = {load.name: {variant: [] for variant in VARIANTS} for load in loads}
    for number in range(count):
        first = number % len(VARIANTS)
        for load in loads:
            for variant in (*VARIANTS[first:], *VARIANTS[:first]):
                figure = await measure(load, ways[load.runtime, variant], other)
                results[load.name][variant].append(figure)
    return results


def show(results: Results, feet: Mapping[str, Footprint]) -> None:
    """The tables."""
    columns = (("CPU us", 10), ("x grpc", 8), ("x direct", 10), ("p50 us", 10), ("p99 us", 10), ("p50 x direct", 14))
    print(f"{'load':34}{'relay':8}" + "".join(f"{name:>{width}}" for name, width in columns))
    for name, variants in results.items():
        grpc_cpu, direct_cpu = median(variants["grpc"], _cpu), median(variants["direct"], _cpu)
        direct_p50 = median(variants["direct"], _p50)
        for variant, figures in variants.items():
            cpu, p50, p99 = median(figures, _cpu), median(figures, _p50), median(figures, lambda f: f.p99_us)
            used = f"{cpu:10.1f}{cpu / grpc_cpu:8.3f}" if cpu else f"{'-':>10}{'-':>8}"
            used += f"{cpu / direct_cpu:10.2f}" if direct_cpu else f"{'-':>10}"
            print(f"{name:34}{variant:8}{used}{p50:10.0f}{p99:10.0f}{p50 / direct_p50:14.2f}")
    print(f"\n{'relay':8}{'RSS idle MB':>12}{'loaded MB':>11}{'idle CPU us/s':>15}{'threads':>9}")
    for variant, foot in feet.items():
        print(
            f"{variant:8}{foot.rss_idle_mb:12.1f}{foot.rss_loaded_mb:11.1f}"
            f"{foot.idle_cpu_us_per_second:15.0f}{foot.threads:9}"
        )
    print()


def as_json(results: Results, limits: list[Bar]) -> str:
    """Medians and bars for other programs."""
    fields: dict[str, Callable[[Figure], float]] = {"cpu_us": _cpu, "p50_us": _p50, "p99_us": lambda f: f.p99_us}
    loads = {
        name: {
            variant: {field: median(figures, of) for field, of in fields.items()}
            for variant, figures in variants.items()
        }
        for name, variants in results.items()
    }
    shown = [{"name": b.name, "measured": b.measured, "limit": b.limit, "met": b.is_met} for b in limits]
    return json.dumps({"loads": loads, "bars": shown}, indent=1)


def why_no_containerd() -> str:
    """Why there can be no containerd of our own here; '' when there can."""
    if os.geteuid():
        return "it needs root"
    missing = missing_programs()
    return f"not installed: {', '.join(missing)}; {REMEDY}" if missing else ""


async def compare(*, quick: bool, output: str) -> int:
    """Run everything. 0 when every bar but the aims is met."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cri-proxy-bench-", dir="/tmp")))
        light, ways = str(directory / "runtime.sock"), Ways()
        stack.enter_context(process("--role", "runtime", light))
        ways |= stack.enter_context(relays(directory, LIGHT, light))
        go_ends, no_go = build_go_ends(directory)
        if not no_go:
            path = str(directory / "go.sock")
            runtime = stack.enter_context(process("serve", path, program=(str(go_ends),)))
            ways |= stack.enter_context(relays(directory, GO, path)) | {(GO, "direct"): Way(path, runtime)}
        lacking = why_no_containerd()
        if not lacking:
            containerd = await stack.enter_async_context(PrivateContainerd(directory / "c"))
            ways |= stack.enter_context(relays(directory, CONTAINERD, str(containerd.socket)))
        rss = {way: way.counted.memory_info().rss for way in ways.values() if way.counted is not None}
        loads = scenarios(quick=quick, runtimes={runtime for runtime, _ in ways})
        results = await rounds(loads, 3 if quick else 6, ways, stack.enter_context(caller(go_ends)))
        at_rest = {variant: ways[LIGHT, variant] for variant in VARIANTS[1:]}
        feet = {variant: footprint(way, rss[way]) for variant, way in at_rest.items()}
    limits = bars(loads, results, feet)
    if output == "json":
        print(as_json(results, limits))
    else:
        show(results, feet)
        for what, why in (("containerd", lacking), ("ends in Go", no_go)):
            if why:
                print(f"not measured: {what} ({why})")
        for bar in limits:
            print(f"{'met ' if bar.is_met else 'MISS'} {bar.name}: {bar.measured:.3f} (limit {bar.limit:g})")
    return 0 if all(bar.is_met for bar in limits if _AIM not in bar.name) else 1


def run_on_relay_loop(work: Coroutine[object, object, None]) -> None:
    """Run this on the daemon's event loop."""
    with asyncio.Runner(loop_factory=RelayLoop) as runner:
        runner.run(work)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half a minute instead of two")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--role", choices=["runtime", "splice", "grpc", "caller"], help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "runtime":
        run_on_relay_loop(serve_runtime(options.paths[0]))
    elif options.role == "caller":
        from benchmarks.grpcio_caller import serve_caller

        serve_caller()
    elif options.role:
        run_on_relay_loop(serve_relay(options.role, *options.paths))
    else:
        return asyncio.run(compare(quick=options.quick, output=options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
