"""The functions that ``expect`` expressions call: about containers, the machine, CPU sets and the last step."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TypeVar, cast

from cri_proxy.simulate.errors import ExpectationError
from cri_proxy.simulate.expect.expressions import Function, Members, Value, cpu_ids
from cri_proxy.simulate.outcome import NO_STEP, ContainerState, StepOutcome
from policies.base import PoolView
from policies.registry import REASON_CODES
from sysfs.cpuset import CpuSet, IdSet
from sysfs.known_words import did_you_mean
from sysfs.model import Machine

T = TypeVar("T")

# What they give is described in docs/reference/scenarios.md, which a test compares with ``vocabulary``.
_OF_CONTAINERS = (
    *("cpus", "mems", "exclusive", "isolated", "owned", "shared", "reserved", "shared_mcpu", "kind", "pool"),
    *("devices", "kernel_cpus", "kernel_mems", "cpu_shares", "cpu_quota", "overcommitted"),
)


@dataclass(frozen=True, slots=True)
class LastStep:
    """The outcome of the last step before the expressions.

    ``codes`` are the reason codes of the last decision about each container, by name. ``variables_of`` returns what a
    container reads in its ``resources.sh``; nothing without one.
    """

    outcome: StepOutcome = NO_STEP
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables_of: Callable[[ContainerState], Mapping[str, str]] = lambda _: {}


def vocabulary(
    machine: Machine,
    pools: Iterable[PoolView],
    seen: Mapping[str, ContainerState],
    last: LastStep,
    listed: Mapping[str, Iterable[str]],
) -> Mapping[str, Function]:
    """Return every function by its name; ``listed`` are all devices, by type."""
    return {
        **_about_containers(seen, last.variables_of),
        **_about_devices(seen, listed),
        **_about_machine(machine, tuple(pools)),
        **_about_sets(machine),
        **_about_step(seen, last.outcome, last.codes),
    }


def _about_containers(
    seen: Mapping[str, ContainerState], variables_of: Callable[[ContainerState], Mapping[str, str]]
) -> dict[str, Function]:
    def state(name: Value) -> str:
        return seen[name].state if isinstance(name, str) and name in seen else "gone"

    def told(name: Value, variable: Value) -> str:
        variables = variables_of(_found("container", name, seen))
        return _found("variable", variable, variables) if variables else ""

    def read(attribute: str, name: Value) -> Value:
        value = getattr(_found("container", name, seen), attribute)
        return frozenset(value) if isinstance(value, IdSet | tuple) else cast(Value, value)

    return {**{name: partial(read, name) for name in _OF_CONTAINERS}, "state": state, "told": told}


def _about_devices(seen: Mapping[str, ContainerState], listed: Mapping[str, Iterable[str]]) -> dict[str, Function]:
    words = [device for state in seen.values() for device in state.devices]
    held = {*words, *(re.split("[@:]", word)[0] for word in words)}  # of part of a device the device, too

    def free(kind: Value) -> Value:
        return frozenset(_found("type of devices", kind, listed)) - held

    return {"free_devices": free}


def _about_machine(machine: Machine, pools: tuple[PoolView, ...]) -> dict[str, Function]:
    nodes = {n.id: n.cpus for n in machine.nodes}
    packages = {p.id: p.cpus for p in machine.packages}
    cores = {cpu: core.cpus for core in machine.cores for cpu in core.cpus}
    by_name = {pool.name: pool.cpus for pool in pools}
    memory = {pool.name: pool.memory_free_bytes >> 20 for pool in pools}
    root = pools[0] if pools else None
    return {
        "online": lambda: frozenset(machine.online),
        "node": lambda number: frozenset(_found("NUMA node", number, nodes)),
        "package": lambda number: frozenset(_found("package", number, packages)),
        "core": lambda cpu: frozenset(_found("online CPU", cpu, cores)),
        "kernel_isolated": lambda: frozenset(machine.isolated),
        "reserved_cpus": lambda: frozenset(root.reserved if root else ()),
        "free": lambda: frozenset(root.shared if root else ()),
        "nodes_of": lambda cpus: _holders(nodes, cpus),
        "packages_of": lambda cpus: _holders(packages, cpus),
        "pool_cpus": lambda name: frozenset(_found("pool", name, by_name)),
        "pools": lambda: frozenset(by_name),
        "memory_free": lambda name: _found("pool", name, memory),
    }


def _about_sets(machine: Machine) -> dict[str, Function]:
    cores = {cpu: frozenset(core.cpus) for core in machine.cores for cpu in core.cpus}

    def whole_cores(cpus: Value) -> bool:
        ids = _numbers(cpus)
        return all(cores.get(cpu, frozenset()) <= ids for cpu in ids)

    return {
        "cpuset": _numbers,
        "disjoint": lambda *sets: all(_set(a).isdisjoint(_set(b)) for a, b in combinations(sets, 2)),
        "subset": lambda a, b: _set(a) <= _set(b),
        "whole_cores": whole_cores,
        "len": lambda members: len(_set(members)),
    }


def _about_step(
    seen: Mapping[str, ContainerState], last: StepOutcome, codes: Mapping[str, tuple[str, ...]]
) -> dict[str, Function]:
    refusals = last.refused

    def refused(name: Value, words: Value = "") -> bool:
        if not isinstance(name, str) or not isinstance(words, str):
            raise ExpectationError("refused takes a container and words, as in refused('web/c0', 'wanted 2')")
        return name in refusals and words in refusals[name]

    def because(name: Value, code: Value) -> bool:
        if code not in REASON_CODES:
            raise ExpectationError(f"there is no reason {code!r}; {did_you_mean(str(code), REASON_CODES)}")
        return code in _found("decision about a container", name, codes)

    return {
        "ok": lambda: last.ok,
        "error": lambda: last.error,
        "refused": refused,
        "because": because,
        "updated": lambda: frozenset(moved.container for moved in last.updated),
        "updates": lambda: last.update_calls,
        "notices": lambda: last.notices,
        "containers": lambda: frozenset(seen),
    }


def _found(what: str, key: Value, table: Mapping[int, T] | Mapping[str, T]) -> T:
    """Return what a table has under a key. Raises ExpectationError, also for True, which Python takes for 1."""
    known = cast(Mapping[Value, T], table)
    if key not in known or isinstance(key, bool):
        raise ExpectationError(f"there is no {what} {key!r}; there are {', '.join(map(str, known)) or 'none'}")
    return known[key]


def _holders(table: Mapping[int, CpuSet], cpus: Value) -> Members:
    ids = _numbers(cpus)
    return frozenset(i for i, held in table.items() if not ids.isdisjoint(held))


def _set(value: Value) -> frozenset[object]:
    if isinstance(value, str):
        return frozenset(_numbers(value))
    if isinstance(value, frozenset):
        return frozenset(value)
    raise ExpectationError(f"expected a set, got {value!r}")


def _numbers(value: Value) -> frozenset[int]:
    if isinstance(value, str):
        return cpu_ids(value)
    if isinstance(value, frozenset) and all(isinstance(member, int) for member in value):
        return cast(frozenset[int], value)
    raise ExpectationError(f"expected a set of CPUs, got {value!r}")
