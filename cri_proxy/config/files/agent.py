"""The loop of ``config-agent``: keep a host directory up to date with a mounted ConfigMap and the node's group."""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.files.configmap_volume import VolumeError, publish, published
from cri_proxy.config.files.location import GROUP_FILE
from cri_proxy.config.layouts import MAX_BYTES
from cri_proxy.config.node_group import group_in
from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileRefused, NotRegular, open_beneath, read_text
from cri_proxy.in_force.symlinks import ANY, DATA_LINK, Lookups, lookups_beneath, of_one_generation
from cri_proxy.in_force.watch import OnThreads, Watch
from cri_proxy.logs import Log

# The period in which a failed copy is retried, and a copy that was changed by hand is restored.
REPAIR_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Payload:
    """The files to write; ``problem`` is why there are none ('' = there are)."""

    files: tuple[tuple[str, bytes], ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The mounted directory and the node's group: ``group``, else that in ``group_file`` ('' and None: no group)."""

    directory: Path
    group: str = ""
    group_file: Path | None = None

    def read(self) -> Payload:
        """Return all files of one generation of the volume, with the group. Blocks; raises nothing."""
        return of_one_generation(self.directory, self._look)

    def lookups(self) -> Lookups:
        """Return the directories on the path with the names to watch there; in the volume itself every name."""
        group = [] if self.group_file is None else [(self.group_file.parent, (self.group_file.name,))]
        return lookups_beneath((self.directory, (ANY, DATA_LINK)), *group)

    def _look(self) -> Payload:
        try:
            files = self._files()
            group = self._group()
        except OSError as error:
            return Payload((), f"{error.filename}: cannot read: {error.strerror}")
        except ValueError as error:
            return Payload((), str(error))
        # Not copied: an empty ConfigMap must not take the configuration from the node.
        if not files:
            return Payload((), f"{self.directory}: holds no file: the last copy stays")
        if group:
            files[GROUP_FILE] = f"{group}\n".encode()
        return Payload(tuple(sorted(files.items())))

    def _files(self) -> dict[str, bytes]:
        """Return the files by name. Raises OSError and ValueError."""
        files: dict[str, bytes] = {}
        with open_beneath(self.directory) as directory:
            for place in self._places(directory):
                with _named(self.directory / place), suppress(NotRegular), directory.file(place) as file:
                    files[Path(place).name] = file.read(MAX_BYTES + 1)
                # After each file: a directory of large ones is not read to its end.
                if sum(map(len, files.values())) > MAX_BYTES:
                    raise ValueError(
                        f"{self.directory}: larger than {MAX_BYTES} bytes, the most that a ConfigMap holds"
                    )
        return files

    def _places(self, directory: DirectoryBeneath) -> Sequence[str]:
        """Return the paths of files beneath the directory; a volume's own names begin with two dots."""
        try:
            # Through ``..data`` itself: the kubelet makes the links to it after the swap.
            with _named(self.directory / DATA_LINK):
                inside, names = f"{DATA_LINK}/", list(directory.names(DATA_LINK))
        except (FileNotFoundError, NotADirectoryError):
            inside, names = "", list(directory.names())
        return sorted(f"{inside}{name}" for name in names if not name.startswith(".."))

    def _group(self) -> str:
        if self.group or self.group_file is None:
            return self.group
        with _named(self.group_file):
            text = read_text(self.group_file, MAX_BYTES)
        # The downward API writes an empty file where the label is missing.
        try:
            return group_in(text)
        except ValueError as error:
            raise ValueError(f"{self.group_file}: {error}") from None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Raise the reason why this file is not read with its path, as a ValueError, or OSError where there is none."""
    try:
        yield
    except FileRefused as error:
        raise ValueError(f"{path}: {error}") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


class Gate(Protocol):
    """Decides by the cluster which files this node takes now, and for which group."""

    def wait_seconds(self) -> float:
        """Return how long to wait until the next look at the cluster."""

    async def admit(self, payload: Payload, copy: Mapping[str, bytes] | None) -> Payload | None:
        """Return what to write now, None where that is nothing. ``copy`` is what was written last, None for nothing."""


class Agent:
    """Copies ``origin`` to ``target`` and keeps the copy up to date, through ``gate`` if there is one."""

    def __init__(self, origin: Origin, target: Path, *, log: Log, clock: Clock, gate: Gate | None = None) -> None:
        """Read nothing yet."""
        self._gate = gate
        self._origin = origin
        self._target = target
        self._log = log
        self._clock = clock
        self._problem = ""

    async def copy(self) -> bool:
        """Copy once; return whether the target is up to date."""
        return await self._write(await asyncio.to_thread(self._origin.read))

    async def serve(self, stop: Awaitable[object]) -> None:
        """Copy, and again at every change, until ``stop`` is done."""
        watch: Watch[Payload] = Watch(OnThreads(self._origin), Payload(()), self._take, clock=self._clock)
        watch.ask()

        async def repair() -> None:
            while True:
                await self._clock.sleep(REPAIR_SECONDS)
                watch.ask()

        async def look_at_cluster(gate: Gate) -> None:
            while True:
                await self._clock.sleep(gate.wait_seconds())
                # The ConfigMap is the same, and the cluster may let this node take it now.
                watch.forget()
                watch.notice()

        async with asyncio.TaskGroup() as group:
            works = [watch.watch(), watch.poll(), repair()]
            works += [] if self._gate is None else [look_at_cluster(self._gate)]
            tasks = [group.create_task(work) for work in works]
            await stop
            for task in tasks:
                task.cancel()

    async def _take(self, payload: Payload, is_asked: bool) -> None:
        await self._write(payload, is_repeated=is_asked)

    async def _write(self, payload: Payload, *, is_repeated: bool = False) -> bool:
        if self._gate is not None and not payload.problem:
            admitted = await self._gate.admit(payload, await asyncio.to_thread(published, self._target))
            if admitted is None:
                return False
            payload = admitted
        return await asyncio.to_thread(self._publish, payload, is_repeated=is_repeated)

    def _publish(self, payload: Payload, *, is_repeated: bool = False) -> bool:
        """Write the copy; a problem that stays is said again at each repair, ``is_repeated``."""
        problem, is_new = payload.problem, False
        if not problem:
            try:
                is_new = publish(self._target, dict(payload.files))
            except VolumeError as error:
                problem = str(error)
        if problem and (is_repeated or problem != self._problem):
            self._log.error(events.CONFIG_NOT_WRITTEN, reason=problem)
        if is_new or (self._problem and not problem):
            names = [name for name, _ in payload.files]
            self._log.info(events.CONFIG_WRITTEN, directory=str(self._target), files=names)
        self._problem = problem
        return not problem
