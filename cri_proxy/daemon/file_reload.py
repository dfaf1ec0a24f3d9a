"""Read files of the node off the event loop, watch them, note what is in force, save it for later starts.

What the files are and mean is told by a subclass: ``CostFiles`` and ``InventoryFile``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.errors import StoreError
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.in_force.file_state import FileState, JudgedFile, problem_text, texts_in_force
from cri_proxy.in_force.inotify import Inotify
from cri_proxy.in_force.last_good import KeptTexts
from cri_proxy.in_force.last_good_writer import LastGoodWriter
from cri_proxy.in_force.symlinks import Lookups
from cri_proxy.in_force.text_files import FoundFiles
from cri_proxy.in_force.watch import Watch
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.node import Node

READ_SECONDS: Final = 2.0
"""For a directory of a few files, and for what was saved of it."""
MERGE_SECONDS: Final = 20.0
"""For parsing all that the bounds let in, on a machine that is busy; usual files take milliseconds."""
POLL_SECONDS: Final = 60.0
"""Beside inotify: a poll starts a process, and the files change when a plugin starts."""


class JudgedFiles(Protocol):
    """What the files say together; ``files`` are by name."""

    @property
    def files(self) -> tuple[JudgedFile, ...]:
        """Each file, and whether its present content counts."""


OptionsT = TypeVar("OptionsT")
SaidT = TypeVar("SaidT", bound=JudgedFiles)


@dataclass(frozen=True, slots=True)
class FilesReading(Generic[OptionsT, SaidT]):
    """What the files were, and what they say under these options; ``kept`` are the texts that count."""

    found: FoundFiles
    options: OptionsT
    said: SaidT
    kept: KeptTexts


@dataclass(frozen=True, slots=True)
class FilesKind:
    """What is read: ``look``, ``lookups`` and ``find_kept`` block on the disk.

    ``lookups`` are as of ``in_force.watch.Watched``, ``find_kept`` finds what an earlier run has saved. ``word`` is
    for one of the files. The others are names of events.
    """

    word: str
    look: Callable[[Path], FoundFiles]
    lookups: Callable[[Path], Lookups]
    find_kept: Callable[[Path, Path], KeptTexts]
    unreadable: str
    rejected: str
    reloaded: str
    not_kept: str


class WatchedFiles(ABC, Generic[OptionsT, SaidT]):
    """The files in force; nothing is before ``begin``."""

    def __init__(
        self, nothing: FilesReading[OptionsT, SaidT], files: FileCalls, *, clock: Clock, journal: Journal
    ) -> None:
        """``nothing`` is what was read so far."""
        self._files = files
        self._clock = clock
        self._journal = journal
        self._nothing_said: SaidT = nothing.said
        self._in_force = nothing
        self._since_seconds = clock.now_seconds()
        self._counts = {"applied": 0, "unchanged": 0, "rejected": 0}
        self.keep: Callable[[KeptTexts], None] = _forget
        """Gets what is to be saved for the next start, whenever that changes."""
        self.is_merged = True
        """Whether the files could be merged in time when they were read last; else they are to be read again."""

    kind: FilesKind

    @abstractmethod
    def path_of(self, options: OptionsT) -> Path | None:
        """Return where the files are; None where none are read."""

    @abstractmethod
    async def say(self, found: FoundFiles, kept: Mapping[str, str], options: OptionsT) -> SaidT:
        """Return what the files say together, with the last good content of bad ones. Raises FilesFailed."""

    @abstractmethod
    def has_changed(self, before: SaidT, now: SaidT) -> bool:
        """Return whether another inventory is in force."""

    @abstractmethod
    def counted(self, said: SaidT) -> Mapping[str, int]:
        """Return how many devices there are by type, for the log."""

    @property
    def kept(self) -> KeptTexts:
        """The texts that count, for the next start."""
        return self._in_force.kept

    @property
    def found(self) -> FoundFiles:
        """The files that what is in force was made of."""
        return self._in_force.found

    async def begin(self, state_dir: Path) -> None:
        """Put in force what the files say at the start, or did at the end, where one cannot be used now."""
        options, path = self._in_force.options, self.found.path
        try:
            kept = await self._files.run(
                str(state_dir), self.kind.find_kept, state_dir, path, within_seconds=READ_SECONDS
            )
        except (StoreError, FilesFailed) as error:
            self._journal.noted(self.kind.not_kept, reason=str(error))
            kept = KeptTexts(path)
        self._in_force = replace(self._in_force, kept=KeptTexts(path) if self.path_of(options) is None else kept)
        read = await self.read(options)
        if read.said.files or read.found.problem:
            self.report(read, "")
        self._in_force = read

    async def read(self, options: OptionsT) -> FilesReading[OptionsT, SaidT]:
        """Return what the files that these options name say now."""
        return await self.merged(await self.look(options), options)

    async def look(self, options: OptionsT) -> FoundFiles:
        """Return the files that are there now."""
        path = self.path_of(options)
        if path is None:
            return FoundFiles(Path())
        try:
            return await self._files.run(str(path), self.kind.look, path, within_seconds=READ_SECONDS)
        except FilesFailed:
            return FoundFiles(path, problem="does not answer: does it lie on a mount that hangs?")

    async def lookups(self, options: OptionsT) -> Lookups:
        """Return what to watch; nothing while that does not answer, so that inotify is not asked either."""
        path = self.path_of(options)
        if path is None:
            return {}
        try:
            return await self._files.run(str(path), self.kind.lookups, path, within_seconds=READ_SECONDS)
        except FilesFailed:
            return {}

    async def merged(self, found: FoundFiles, options: OptionsT) -> FilesReading[OptionsT, SaidT]:
        """Return what these files say, with the last good content of those that cannot be used."""
        before = self._in_force
        if (found, options) == (before.found, before.options):
            return before
        kept = before.kept if before.kept.directory == found.path else KeptTexts(found.path)
        texts = dict(kept.texts)
        if not found.files and not (found.problem and texts):
            return FilesReading(found, options, self._nothing_said, KeptTexts(found.path))
        try:
            said = await self.say(found, texts, options)
        except FilesFailed as error:
            self.is_merged = False
            found = replace(found, problem=f"cannot be merged: {error.problem}")
            return replace(before, found=found, options=options)
        self.is_merged = True
        in_force = tuple(sorted(texts_in_force(found, texts, said.files).items()))
        return FilesReading(found, options, said, KeptTexts(found.path, in_force))

    def use(self, read: FilesReading[OptionsT, SaidT], *, is_asked: bool = False) -> None:
        """Note that this is in force, and report what changed; ``is_asked``: say so where nothing has."""
        before = self._in_force
        if read == before and not is_asked:
            return
        has_changed = self.has_changed(before.said, read.said)
        if has_changed:
            self._since_seconds = self._clock.now_seconds()
        is_bad = bool(read.found.problem) or any(file.problem for file in read.said.files)
        outcome = "rejected" if is_bad else "applied" if has_changed else "unchanged"
        self._counts[outcome] += 1
        self.report(read, outcome)
        self._in_force = read
        if read.kept != before.kept:
            self.keep(read.kept)

    def report(self, read: FilesReading[OptionsT, SaidT], outcome: str) -> None:
        """Log the problems that are new, and the change; ``outcome`` is '' at the start."""
        before, path = self._in_force, None if self.path_of(read.options) is None else str(read.found.path)
        if read.found.problem and read.found.problem != before.found.problem:
            self._journal.noted(self.kind.unreadable, path=path, reason=read.found.problem)
        for file in read.said.files:
            if file.problem and file not in before.said.files:
                self._journal.noted(
                    self.kind.rejected,
                    file=str(read.found.place(file.name)),
                    line=file.line or None,
                    reason=file.problem,
                    last_good_stays=file.state is FileState.KEPT,
                )
        if outcome:
            counts, files = self.counted(read.said), len(read.said.files)
            self._journal.noted(self.kind.reloaded, outcome=outcome, path=path, files=files, devices=dict(counts))

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        found, said, word = self._in_force.found, self._in_force.said, self.kind.word
        if found.problem:
            yield f"the {word}s of {found.path} cannot be read, what they said before stays: {found.problem}"
        for file in said.files:
            if file.problem:
                yield f"{word} {problem_text(found, file)}"


class WatchedPlace(Generic[OptionsT, SaidT]):
    """What the options in force name, as ``in_force.watch.Watched``: looked at by workers that may hang."""

    def __init__(self, watched: WatchedFiles[OptionsT, SaidT], options: Callable[[], OptionsT]) -> None:
        """``options`` returns those in force."""
        self._watched = watched
        self._options = options

    async def read(self) -> FoundFiles:
        """See ``Watched``."""
        return await self._watched.look(self._options())

    async def lookups(self) -> Lookups:
        """See ``Watched``."""
        return await self._watched.lookups(self._options())


class FilesWatcher(Generic[OptionsT, SaidT]):
    """Watches from ``follow`` on; a reload that is asked for earlier is made then."""

    def __init__(
        self,
        watched: WatchedFiles[OptionsT, SaidT],
        watch: Watch[FoundFiles],
        last_good: LastGoodWriter[KeptTexts],
        *,
        clock: Clock,
    ) -> None:
        """``last_good`` saves what ``watched`` keeps."""
        self._watched = watched
        self._last_good = last_good
        self._clock = clock
        self.watch = watch

    def follow(self, node: Node) -> None:
        """Watch from now on, in the node's background."""
        name = f"{self._watched.kind.word}s"
        self._watched.keep = self._last_good.keep
        self._watched.keep(self._watched.kept)
        node.keep_doing(lambda: self.watch.watch(Inotify(self.watch.notice)), name)
        node.keep_doing(self._poll, f"{name} poll")

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        word = self._watched.kind.word
        if self.watch.problem:
            yield f"changes of the {word}s are found by polling only, every minute: {self.watch.problem}"
        if self._last_good.problem:
            yield f"a start with a bad {word} would not find its last good content: {self._last_good.problem}"

    async def _poll(self) -> None:
        """Look at the files now and then, until cancelled; merge them again where that failed."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            if self._watched.is_merged:
                self.watch.notice()
            else:
                self.watch.ask()


def _forget(kept: KeptTexts) -> None:
    """Save nothing."""
