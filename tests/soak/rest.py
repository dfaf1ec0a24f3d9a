"""The daemon at rest: what must be true then, and what is read off it."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from cri_proxy.node.resource_files.updates import DIRECTORY
from cri_proxy.node.status.model import ContainerView, StatusView
from cri_proxy.state.decisions import KEPT_WITHOUT_ROW
from sysfs.cpuset import CpuSet
from tests.soak.clients import metrics
from tests.soak.grounds import Ground
from tests.testbed.kernel import Allowed


def problems(status: StatusView, enforced: Mapping[str, Allowed], wanted: set[str]) -> Iterator[str]:
    """What is not as it must be when these containers run and nothing is under way."""
    shown = {c.container_id: c for c in status.containers}
    if shown.keys() != wanted:
        gone, without = shown.keys() - wanted, wanted - shown.keys()
        yield f"{len(gone)} containers hold a grant and are gone, {len(without)} hold none"
    if enforced.keys() != wanted:
        yield f"the runtime runs {len(enforced)} containers, not {len(wanted)}"
    yield from status.violations
    for container_id in sorted(shown.keys() & enforced.keys()):
        yield from _pinning_problems(shown[container_id], enforced[container_id])
    owned = [c.exclusive | c.isolated for c in status.containers]
    if twice := _twice(owned):
        yield f"CPUs {twice} are owned twice"
    for container_id, allowed in enforced.items():
        own = shown[container_id].exclusive | shown[container_id].isolated if container_id in shown else CpuSet()
        if foreign := allowed.cpus & CpuSet.of_masks(cpus.mask for cpus in owned) - own:
            yield f"{container_id[:12]} runs on CPUs {foreign} that others own"


def _pinning_problems(view: ContainerView, allowed: Allowed) -> Iterator[str]:
    who = f"{view.namespace}/{view.pod}/{view.name}"
    if view.state != "running":
        yield f"{who} is {view.state}"
    if view.cpus is not None and view.cpus != allowed.cpus:
        yield f"{who} should be on CPUs {view.cpus} and runs on {allowed.cpus}"
    if view.mems is not None and view.mems != allowed.mems:
        yield f"{who} should have memory of {view.mems} and has {allowed.mems}"
    if view.acknowledged_cpus != view.cpus or view.acknowledged_mems != view.mems:
        yield f"{who} waits for an update"


def _twice(owned: list[CpuSet]) -> CpuSet:
    seen = twice = CpuSet()
    for cpus in owned:
        twice |= seen & cpus
        seen |= cpus
    return twice


async def claims(ground: Ground) -> tuple[str, ...]:
    """What the daemon says of itself and must never say after a soak."""
    value = await metrics(ground.daemon.admin.path)
    never: tuple[tuple[str, float], ...] = (
        ("faults of our own", value("cri_proxy_faults_total") - value("cri_proxy_faults_total", where="relay")),
        ("CPUs held for the dead", value("cri_proxy_dead_held_cpus")),
        ("containers that own CPUs with somebody on them", value("cri_proxy_violated_containers")),
        ("containers whose update waits", value("cri_proxy_update_waiting_containers")),
        ("containers whose update is refused", value("cri_proxy_update_refused_containers")),
        ("containers without a decision", value("cri_proxy_unplaced_containers")),
        ("grants whose container is not known", value("cri_proxy_containers", state="pending")),
        ("grants without a container", value("cri_proxy_containers", state="reserved")),
        ("parts that are not healthy", 1 - value("cri_proxy_ready")),
    )
    return tuple(f"{count:.0f} {what}" for what, count in never if count)


async def read(ground: Ground) -> dict[str, float]:
    """Every series now; those that this ground cannot tell are left out."""
    value = await metrics(ground.daemon.admin.path)
    process = Path("/proc") / str(ground.daemon.pid)
    state = ground.directory / "state"
    return {
        **_memory(process),
        **_descriptors(process),
        **_from_metrics(value),
        **_rows(state / "state.db"),
        "threads": len(list((process / "task").iterdir())),
        "store bytes": sum(path.stat().st_size for path in state.glob("state.db*")),
        "told directories": sum(path.is_dir() for path in (state / DIRECTORY).rglob("*")),
        **({"event streams": streams} if (streams := ground.listeners()) is not None else {}),
    }


def _from_metrics(value: Callable[..., float]) -> dict[str, float]:
    return {
        "blocks": value("cri_proxy_allocated_blocks"),
        "tasks": value("cri_proxy_tasks"),
        "connections": value("cri_proxy_relay_connections"),
        "calls in flight": value("cri_proxy_relay_intercepted_calls"),
    }


def _memory(process: Path) -> dict[str, float]:
    lines = (line.split() for line in (process / "smaps_rollup").read_text().splitlines())
    return {"anonymous bytes": next(int(words[1]) * 1024 for words in lines if words[0] == "Anonymous:")}


def _descriptors(process: Path) -> dict[str, float]:
    """Open descriptors by kind, and how many paths are watched by inotify (proc_pid_fdinfo(5))."""
    kinds: Counter[str] = Counter()
    watches = 0
    for path in (process / "fd").iterdir():
        try:
            target = str(path.readlink())
            kinds[_kind(target)] += 1
            if "inotify" in target:
                watches += (process / "fdinfo" / path.name).read_text().count("inotify wd:")
        except OSError:
            continue  # closed meanwhile
    names = ("sockets", "pipes", "files", "other descriptors")
    return {**{name: kinds[name] for name in names}, "inotify watches": watches}


def _kind(target: str) -> str:
    if target.startswith("socket:"):
        return "sockets"
    if target.startswith("pipe:"):
        return "pipes"
    return "other descriptors" if target.startswith("anon_inode:") else "files"


def _rows(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    grants, decisions = counts["grants"], counts.pop("decisions")
    surplus = max(decisions - grants - KEPT_WITHOUT_ROW, 0)
    return {"grants": grants, "rows": sum(counts.values()), "surplus decisions": surplus}
