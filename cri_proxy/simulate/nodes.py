"""Put captured nodes under a new configuration, in processes of their own, and say of each what changes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cri_proxy.errors import ConfigError
from cri_proxy.simulate.capture import CapturedNode, read_captured
from cri_proxy.simulate.clock import InlineExecutor
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.outcome import Hold
from cri_proxy.simulate.processes import in_processes
from policies.base import ContainerKey, Grant, Pinning
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError


@dataclass(frozen=True, slots=True)
class MovedInFleet:
    """A container that the new configuration moves: CPUs and memory nodes before and after."""

    container: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The changes by a new configuration on one node; ``problem`` is why it is refused there, or not read.

    ``moved`` have other CPUs of their own, another pool or other memory; ``narrowed`` counts others whose CPUs change.
    """

    node: str
    containers: int
    problem: str = ""
    moved: tuple[MovedInFleet, ...] = ()
    narrowed: int = 0

    @property
    def is_change(self) -> bool:
        """Whether anything differs."""
        return bool(self.problem or self.moved or self.narrowed)


def changes_of(paths: Sequence[Path], options: Mapping[str, object]) -> Iterator[NodeChange]:
    """Yield the change on each captured node, in the order of the archives."""
    yield from in_processes(partial(change_of, options=options), paths)


def change_of(path: Path, options: Mapping[str, object]) -> NodeChange:
    """Return the change on one captured node."""
    try:
        captured = read_captured(path)
    except SysfsBaseError as error:
        return NodeChange(path.name, 0, str(error))
    found: list[NodeChange] = []
    # Not the coroutine's result: see run_files.run_scenario.
    asyncio.run(_change(captured, options, found))
    return found[0]


async def _change(captured: CapturedNode, options: Mapping[str, object], found: list[NodeChange]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    count = len(captured.saved.rows)
    try:
        node = SimulatedNode(captured.machine, captured.options, writes_files=False)
    except (ConfigError, PolicyBaseError) as error:
        found.append(NodeChange(captured.name, count, f"what was in force cannot be used here: {error}"))
        return
    node.let_stand(captured.saved)
    await node.recover()
    await node.settle()
    before = held_on(node)
    problem = await node.replace_options(options)
    await node.settle()
    after = held_on(node)
    await node.close()
    moved = tuple(moved_between(before, after)) if not problem else ()
    moved_names = {each.container for each in moved}
    narrowed = sum(
        1
        for key, (grant, old) in before.items()
        if key in after and _name(grant) not in moved_names and after[key][1] != old
    )
    found.append(NodeChange(captured.name, count, problem, moved, 0 if problem else narrowed))


Held = Mapping[ContainerKey, tuple[Grant, Pinning]]
"""The grants of containers, and where they are pinned by them."""


def held_on(node: SimulatedNode) -> Held:
    """Return what each container of a node holds now."""
    ledger = node.node.context.ledger
    desired = ledger.desired()
    return {row.key: (row.grant, desired[row.key]) for row in ledger.active()}


def _name(grant: Grant) -> str:
    return str(grant.request.full_name)


def moved_between(before: Held, after: Held) -> Iterator[MovedInFleet]:
    """Yield the containers that hold something else than before, or nothing any more."""
    for key, (grant, old) in before.items():
        if key not in after:
            yield MovedInFleet(_name(grant), _text(old), "no place")
            continue
        now, new = after[key]
        if Hold(grant.pool, grant.owned, old.mems) != Hold(now.pool, now.owned, new.mems):
            yield MovedInFleet(_name(grant), _text(old), _text(new))


def _text(pinning: Pinning) -> str:
    return f"CPUs {pinning.cpus or 'any'}, nodes {pinning.mems or 'any'}"
