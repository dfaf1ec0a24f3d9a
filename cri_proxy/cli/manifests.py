"""Read manifests, machines and configurations that ``simulate`` is to plan with, and make the plans."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cri_proxy.cli.arguments import machine_of
from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.load import options_of
from cri_proxy.errors import CommandFailed
from cri_proxy.simulate.capture import read_captured
from cri_proxy.simulate.nodes import NodeChange, changes_of
from cri_proxy.simulate.plan.nodes import MOST_NODES, Cluster
from cri_proxy.simulate.plan.orders import worst_of
from cri_proxy.simulate.plan.pods import PlannedWorkload, arrivals_of, read_workloads
from cri_proxy.simulate.plan.result import PlanResult
from cri_proxy.simulate.run_files import text_of
from cri_proxy.yaml_fields import DocumentError
from sysfs.text import some

SUFFIXES: Final = (".yaml", ".yml", ".json")
MOST_ORDERS: Final = 1000
_MARKS: Final = frozenset({"", "---", "..."})
_KIND: Final = re.compile(r"""^[\s{\[]*["']?kind["']?\s*:""", re.MULTILINE)
_OF_SCENARIO: Final = re.compile(r"""^\{?\s*["']?(steps|machine)["']?\s*:""", re.MULTILINE)


def texts_of(paths: Sequence[str]) -> list[tuple[str, str | DocumentError]]:
    """Return the texts of these files, or why one cannot be read; of a directory those that are YAML by their names."""
    found = []
    for path in paths:
        is_directory = path != "-" and Path(path).is_dir()
        inside = sorted(p for p in Path(path).rglob("*") if p.suffix in SUFFIXES) if is_directory else ()
        found += [(name, text_of(name)) for name in (map(str, inside) if is_directory else (path,))]
    return found


def is_empty(text: str) -> bool:
    r"""Return whether a text has no document: nothing but comments and marks, as templates leave that make nothing.

    >>> is_empty("# Source: chart\n---\n"), is_empty("a: b")
    (True, False)
    """
    return all(line.partition("#")[0].strip() in _MARKS for line in text.splitlines())


def is_manifest(text: str) -> bool:
    r"""Return whether a text is one of Kubernetes objects: these have a kind, and a scenario has steps.

    >>> is_manifest("apiVersion: v1\nkind: Pod\n"), is_manifest("machine: host\nsteps: []\n")
    (True, False)
    """
    return _KIND.search(text) is not None and _OF_SCENARIO.search(text) is None


def plans_of(args: argparse.Namespace, manifests: Sequence[tuple[str, str]]) -> list[PlanResult]:
    """Return the plan, or both that are to be compared. Raises CommandFailed, and what reading raises."""
    workloads = [found for name, text in manifests for found in read_workloads(text, name, args.namespace)]
    if not workloads:
        raise CommandFailed("the manifests have no pods: no Pod, Deployment, StatefulSet, DaemonSet or Job")
    clusters = _clusters(args)
    nodes = clusters[0].nodes
    if not 1 <= nodes <= MOST_NODES or not 1 <= args.orders <= MOST_ORDERS:
        raise CommandFailed(f"--nodes goes from 1 to {MOST_NODES}, --orders from 1 to {MOST_ORDERS}", 2)
    arrivals = arrivals_of(workloads, nodes)
    notes = _notes(workloads)
    plans = []
    for cluster in clusters:
        first = args.random if args.random is not None else None
        seeds = [first, *((first or 0) + number for number in range(1, args.orders))]
        found = worst_of(cluster, arrivals, seeds)
        plans.append(found.with_notes(notes))
    return plans


def fleet_of(args: argparse.Namespace) -> list[NodeChange]:
    """Return what the configuration changes on each captured node of a directory. Raises CommandFailed."""
    if args.nodes.isdecimal() or not Path(args.nodes).is_dir():
        raise CommandFailed("give FILE, or a directory of captured nodes by --nodes", 2)
    if len(args.config) != 1:
        raise CommandFailed("give one --config: what is to be in force on the captured nodes", 2)
    return list(changes_of(_archives(Path(args.nodes)), _options(args.config[0])))


def _archives(directory: Path) -> list[Path]:
    paths = sorted(path for path in directory.iterdir() if path.name.endswith(".tar.xz"))
    if not paths:
        raise CommandFailed(f"{directory}: no archive FILE.tar.xz of capture --state in it")
    return paths


def _clusters(args: argparse.Namespace) -> list[Cluster]:
    machines, configs = args.machine or ["host"], args.config or [None]
    if len(machines) * len(configs) > 2:
        raise CommandFailed("two machines or two configurations can be compared, not more", 2)
    if not args.nodes.isdecimal():
        return _captured_clusters(args, configs)
    found = []
    for machine in machines:
        loaded = machine_of(machine)
        for config in configs:
            title = machine if len(machines) > 1 else str(config) if len(configs) > 1 else ""
            options = _options(config) if config is not None else None
            source = str(config) if config is not None else "the defaults"
            found.append(Cluster(loaded, title, int(args.nodes), options, args.strategy, source))
    return found


def _captured_clusters(args: argparse.Namespace, configs: Sequence[Path | None]) -> list[Cluster]:
    """Return the captured nodes of a directory, under each of these configurations, None: that which was in force."""
    if not Path(args.nodes).is_dir():
        raise CommandFailed(f"--nodes {args.nodes}: expected a number, or a directory of captured nodes", 2)
    if args.machine:
        raise CommandFailed("--machine: without effect on captured nodes, which have their own", 2)
    captured = tuple(map(read_captured, _archives(Path(args.nodes))))
    found = []
    for config in configs:
        options = _options(config) if config is not None else None
        title, source = (str(config) if len(configs) > 1 else "", str(config or "what was in force"))
        found.append(Cluster(captured[0].machine, title, len(captured), options, args.strategy, source, captured))
    return found


def _options(path: Path) -> Mapping[str, object]:
    """Return the options of a configuration file, or of the one that applies in a directory. Raises ConfigError."""
    place = ConfigLocation(path)
    return options_of(place, place.read(may_wait=True))


def _notes(workloads: Sequence[PlannedWorkload]) -> tuple[str, ...]:
    others = sorted({name for workload in workloads for name in workload.others})
    if not others:
        return ()
    return (f"not planned: {some(others, 6)}: the resources of device plugins are not simulated",)
