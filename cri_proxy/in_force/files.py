"""``FilesInForce``: files of operators and plugins, read and judged off the event loop, in force, reported, saved."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.file_workers import FilesFailed
from cri_proxy.in_force.file_state import Judged, texts_in_force, where_text
from cri_proxy.in_force.last_good_writer import LastGoodWriter, StateDirectory
from cri_proxy.in_force.report import FilesReport, FileState
from cri_proxy.in_force.state_file import StateFile
from cri_proxy.in_force.symlinks import Lookups
from cri_proxy.in_force.text_files import FoundFiles, KeptTexts
from cri_proxy.in_force.watch import BlockingPlace, Follower, Take, Watch

READ_SECONDS: Final = 2.0
"""For a directory of a few files."""
JUDGE_SECONDS: Final = 20.0
"""For parsing all that the bounds let in, on a machine that is busy; usual files take milliseconds."""
POLL_SECONDS: Final = 60.0
"""Beside inotify: a poll starts a process, and the files change when a plugin starts."""

T = TypeVar("T")


class FilesSource(BlockingPlace[FoundFiles], Protocol[T]):
    """Where the files are and how they are read together; equal sources read alike. Its methods block on the disk."""

    is_one: ClassVar[bool]
    """Whether ``path`` is a file's, not a directory's."""

    @property
    def path(self) -> Path:
        """The directory, or the file."""

    def judge(self, found: FoundFiles, kept: Mapping[str, str]) -> Judged[T]:
        """Return what the files say together, with the last good content of bad ones, whose texts are ``kept``."""


@dataclass(frozen=True, slots=True)
class FilesKind(Generic[T]):
    """A kind of files; ``word`` is for one of them.

    ``nothing`` is in force without files, ``state`` the document that saves their texts, ``counted`` returns how many
    devices there are by type. ``remarks`` returns a sentence for operators about what is in force, '' = none. The
    others are names of events.
    """

    word: str
    nothing: T
    state: StateFile[KeptTexts]
    counted: Callable[[T], Mapping[str, int]]
    unreadable: str
    rejected: str
    reloaded: str
    not_kept: str
    remarks: Callable[[T], str] = lambda _: ""
    remarked: str = ""


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """What the files of a source (None: none are read) were, what they say, and the texts that count."""

    source: FilesSource[T] | None
    found: FoundFiles
    judged: Judged[T]
    kept: KeptTexts

    def texts(self, found: FoundFiles) -> dict[str, str]:
        """Return the last good texts of the files of this place."""
        return dict(self.kept.texts) if self.kept.directory == found.path else {}

    def then(self, source: FilesSource[T] | None, found: FoundFiles, judged: Judged[T]) -> "InForce[T]":
        """Return what is in force after these files were found and judged."""
        texts = sorted(texts_in_force(found, self.texts(found), judged.files).items())
        return InForce(source, found, judged, KeptTexts(found.path, tuple(texts)))


class FilesInForce(Generic[T]):
    """The files of one kind; nothing is in force before ``begin``. It is what its ``follower`` watches."""

    def __init__(
        self, kind: FilesKind[T], source: FilesSource[T] | None, state: StateDirectory, *, clock: Clock
    ) -> None:
        """``source`` may be replaced by what is used later; ``state`` keeps the last good content."""
        self._kind, self._files, self._clock, self._journal = kind, state.files, clock, state.journal
        self._writer = LastGoodWriter(state, kind.state, kind.not_kept)
        found = FoundFiles(source.path if source else Path(), problem="not read yet")
        self._now = InForce(source, found, Judged(kind.nothing), KeptTexts(found.path))
        self._report = FilesReport(clock.now_seconds())
        self._saved: KeptTexts | None = None
        self._is_judged = True
        self.follower: Follower[FoundFiles, KeptTexts] | None = None

    @property
    def content(self) -> T:
        """The content in force."""
        return self._now.judged.content

    @property
    def source(self) -> FilesSource[T] | None:
        """Where the files in force are from."""
        return self._now.source

    @property
    def report(self) -> FilesReport:
        """How the files stand."""
        return replace(self._report, files=self._now.judged.files, problem=self._now.found.problem)

    async def begin(self) -> None:
        """Put in force what the files say at the start, or did at the end, where one cannot be used now."""
        source, nothing = self.source, self._now.kept
        found = await self._writer.find(nothing)
        # What was saved of another directory is no last good content of this one.
        self._saved = found if found is None or found.directory == nothing.directory else nothing
        self._now = replace(self._now, kept=(self._saved or nothing) if source else nothing)
        now = await self._judged(source, await self._look(source))
        if now.judged.files or now.found.problem:
            self._tell(now, "")
        self._now = now

    async def at(self, source: FilesSource[T] | None) -> InForce[T]:
        """Return what the files of this source say now; of the one in force, which is watched, what is in force."""
        return self._now if source == self.source else await self._judged(source, await self._look(source))

    async def again(self, found: FoundFiles) -> InForce[T]:
        """Return what these files say; if they are not of the source in force any more, those of that one."""
        source = self.source
        is_there = source is None or found.path == source.path
        return await self._judged(source, found if is_there else await self._look(source))

    async def read(self) -> FoundFiles:
        """See ``watch.Watched``."""
        return await self._look(self.source)

    async def lookups(self) -> Lookups:
        """See ``watch.Watched``: nothing while it does not answer, so that inotify is not asked either."""
        source = self.source
        if source is None:
            return {}
        try:
            return await self._files.run(str(source.path), source.lookups, within_seconds=READ_SECONDS)
        except FilesFailed:
            return {}

    async def _look(self, source: FilesSource[T] | None) -> FoundFiles:
        if source is None:
            return FoundFiles(Path())
        try:
            return await self._files.run(str(source.path), source.read, within_seconds=READ_SECONDS)
        except FilesFailed:
            return FoundFiles(source.path, (), "does not answer: does it lie on a mount that hangs?", source.is_one)

    async def _judged(self, source: FilesSource[T] | None, found: FoundFiles) -> InForce[T]:
        before = self._now
        # Judging takes a helper process: not for what has been judged.
        if (source, found) == (before.source, before.found):
            return before
        kept = before.texts(found)
        if source is None or not (found.files or (found.problem and kept)):
            return before.then(source, found, Judged(self._kind.nothing))
        subject = f"the judging of the {self._kind.word}s"
        try:
            judged = await self._files.run(subject, source.judge, found, kept, within_seconds=JUDGE_SECONDS)
        except FilesFailed as error:
            self._is_judged = False
            return replace(before, source=source, found=replace(found, problem=f"cannot be merged: {error.problem}"))
        self._is_judged = True
        return before.then(source, found, judged)

    def use(self, now: InForce[T], *, is_asked: bool = False) -> None:
        """Note that this is in force, and report what changed; ``is_asked``: say so where nothing has."""
        before = self._now
        if self.follower is not None:
            if not self._is_judged:
                self.follower.watch.forget()  # so that the next poll judges them again
            if now.source != before.source:
                self.follower.watch.notice()  # it is at another path, perhaps
        if now == before and not is_asked:
            return
        has_changed = now.judged.content != before.judged.content
        is_bad = bool(now.found.problem) or any(file.problem for file in now.judged.files)
        outcome = "rejected" if is_bad else "applied" if has_changed else "unchanged"
        since_seconds = self._clock.now_seconds() if has_changed else self._report.since_seconds
        counts = {outcome: getattr(self._report, outcome) + 1}
        self._report = replace(self._report, since_seconds=since_seconds, **counts)
        self._tell(now, outcome)
        self._now = now
        self._save()

    def follow(self, take: Take[FoundFiles]) -> Follower[FoundFiles, KeptTexts]:
        """Return what follows the files: it has changed ones taken, and saves in the background what is in force."""
        watch = Watch(self, self._now.found, take, clock=self._clock, poll_seconds=POLL_SECONDS)
        self.follower = Follower(f"{self._kind.word}s", watch, self._writer)
        self._save()
        return self.follower

    def _save(self) -> None:
        if self.follower is not None and self._now.kept != self._saved:
            self._saved = self._now.kept
            self._writer.keep(self._saved)

    def _tell(self, now: InForce[T], outcome: str) -> None:
        """Log the problems that are new, and the change; ``outcome`` is '' at the start."""
        before, kind, found = self._now, self._kind, now.found
        remark, path = kind.remarks(now.judged.content), None if now.source is None else str(found.path)
        if remark and remark != kind.remarks(before.judged.content):
            self._journal.noted(kind.remarked, directory=path, reason=remark)
        if found.problem and found.problem != before.found.problem:
            self._journal.noted(kind.unreadable, path=path, reason=found.problem)
        for file in now.judged.files:
            if file.problem and file not in before.judged.files:
                self._journal.noted(
                    kind.rejected,
                    file=str(found.place(file.name)),
                    line=file.line or None,
                    reason=file.problem,
                    last_good_stays=file.state is FileState.KEPT,
                )
        if outcome:
            counts, files = dict(kind.counted(now.judged.content)), len(now.judged.files)
            self._journal.noted(kind.reloaded, outcome=outcome, path=path, files=files, devices=counts)

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        found, word = self._now.found, self._kind.word
        if found.problem:
            yield f"the {word}s of {found.path} cannot be read, what they said before stays: {found.problem}"
        for file in self._now.judged.files:
            if file.problem:
                is_kept = file.state is FileState.KEPT
                stays = "its last good content stays in force" if is_kept else "nothing of it is in force"
                yield f"{word} {where_text(found, file)}: {file.problem}; {stays}"
        if remark := self._kind.remarks(self.content):
            yield f"{word}s: {remark}"
        if self.follower is not None:
            yield from self.follower.warnings()
