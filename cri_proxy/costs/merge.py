"""Join the cost files of a node into one inventory; where one cannot be used, its last good content counts. Pure.

A file says of its own devices what they cost to reach. Devices are those that stand there as a source, or under
``present``: a target alone is another file's to list, so that removing a plugin's file removes its devices.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.costs.cost_file import COSTS, has_known_line, read_costs
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.in_force.file_state import EMPTY, Judged
from cri_proxy.in_force.report import FileState, JudgedFile
from cri_proxy.in_force.text_files import MAX_FILE_BYTES, FoundFiles, TextDirectory, TextFile
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.costs import (
    SYSTEM_TYPES,
    CostError,
    CostLine,
    CostListing,
    Inventory,
    Missing,
    Normalize,
    compile_costs,
    type_of,
    with_colons,
)
from sysfs.documents.table import Table

# What all files of a node may say: six times what the kernel says of 1,792 CPUs. A million pairs take 0.3 s and 100 MB.
MAX_NAMES: Final = 1_000_000
MAX_PAIRS: Final = 1_000_000

_DIALECT: Final = Dialect(MAX_FILE_BYTES, max_depth=8, max_nodes=200_000, has_aliases=True)
_FILE: Final = Table(lambda **given: given, *COSTS, name="a cost file")
# Those of a file for ``cri-proxy select``, which mean nothing here.
_QUESTION: Final = ("request", "busy", "must", "options")


def merge(
    found: FoundFiles, kept: Mapping[str, str], normalize: Normalize = Normalize.NONE, missing: Missing = Missing.ZERO
) -> Judged[Inventory]:
    """Return what these files say; ``kept`` are the texts that were in force before, by name.

    What was in force and has not changed comes first, then the other files by name: where two disagree, the one that
    brought the disagreement is at fault. While the directory cannot be read, what was in force stays.
    """
    if found.problem:
        files = tuple(TextFile(name, kept[name]) for name in sorted(kept))
        merged = merge(FoundFiles(found.path, files), kept, normalize, missing)
        states = (replace(f, state=FileState.KEPT) if f.state is FileState.IN_FORCE else f for f in merged.files)
        return replace(merged, files=tuple(states))
    return _CostMerge(found, kept).merged(normalize, missing)


@dataclass(frozen=True, slots=True)
class CostDirectory(TextDirectory):
    """The directory of a node's cost files, and how these are read together."""

    missing: Missing = Missing.ZERO
    normalize: Normalize = Normalize.NONE

    def judge(self, found: FoundFiles, kept: Mapping[str, str]) -> Judged[Inventory]:
        """Return what these files of it say, as ``merge`` does."""
        return merge(found, kept, self.normalize, self.missing)


class _CostMerge:
    """The work of ``merge``: which content of each file counts, and why not its present one."""

    def __init__(self, found: FoundFiles, kept: Mapping[str, str]) -> None:
        self._found = found
        self._kept = kept
        self._settled: dict[str, CostListing] = {}
        self._new: dict[str, CostListing] = {}
        self._problems: dict[str, DocumentError] = {}
        for file in found.files:
            read = _listing_of(file)
            if isinstance(read, DocumentError):
                self._fall_back(file.name, read)
            elif kept.get(file.name) == file.text:
                self._settled[file.name] = read
            else:
                self._new[file.name] = read

    def merged(self, normalize: Normalize, missing: Missing) -> Judged[Inventory]:
        """Leave out what disagrees, file by file, until the rest is one."""
        # It ends: each round that fails leaves a file, or the new content of one, out.
        while True:
            listing = _announced([*self._settled.values(), *self._new.values()])
            try:
                _refuse_beyond_names(listing)
                table = compile_costs(listing, normalize, most_pairs=MAX_PAIRS)
            except CostError as error:
                self._leave_out(error)
            else:
                return Judged(Inventory(table, missing), tuple(map(self._judged, self._found.files)))

    def _leave_out(self, error: CostError) -> None:
        problem = DocumentError(error.file, error.line, f"{error.token}: {error.problem}")
        if self._new.pop(error.file, None) is not None:
            self._fall_back(error.file, problem)
        else:  # it was in force beside the others, in a version that had other bounds
            del self._settled[error.file]
            self._problems.setdefault(error.file, problem)

    def _fall_back(self, name: str, problem: DocumentError) -> None:
        """Let the last good content of this file count, if there is any."""
        self._problems[name] = problem
        before = _listing_of(TextFile(name, self._kept[name])) if name in self._kept else problem
        if not isinstance(before, DocumentError):
            self._settled[name] = before

    def _judged(self, file: TextFile) -> JudgedFile:
        problem = self._problems.get(file.name)
        if problem is None:
            return JudgedFile(file.name, FileState.IN_FORCE)
        state = FileState.KEPT if file.name in self._settled else FileState.REJECTED
        return JudgedFile(file.name, state, problem.problem, problem.line)


def _listing_of(file: TextFile) -> CostListing | DocumentError:
    if file.problem:
        return DocumentError(file.name, file.line, file.problem)
    try:
        with _FORM.redacted(file.text):
            return read_listing(file.name, file.text)
    except DocumentError as error:
        return error


def read_listing(name: str, text: str) -> CostListing:
    """Return what a file lists, each line with the file's name. Raises DocumentError."""
    if not text.strip():
        # Most likely it is being written: as an error it leaves the last good content in force.
        raise DocumentError(name, 0, EMPTY)
    root = YamlField.only(with_colons(text), name, _DIALECT, "a cost file")
    listing = _read(root) if root is not None else CostListing()
    return replace(listing, lines=tuple(replace(line, file=name) for line in listing.lines))


def _read(root: YamlField) -> CostListing:
    keys = root.entries("a cost file")
    if keys.keys().isdisjoint((*_FILE.keys, *_QUESTION)):
        return read_costs(root, most_names=MAX_NAMES)
    for key in _QUESTION:
        if key in keys:
            raise keys[key].refuse(f"{key}: belongs to a file for cri-proxy select: remove it from a cost file")
    keys = _FILE.fields(root)
    return read_costs(keys.get("costs"), keys.get("present"), most_names=MAX_NAMES)


def _is_cost_file(root: YamlField) -> bool:
    keys = {key for key, *_ in root.rows("")} if root.is_mapping else set()
    return not keys.isdisjoint(_FILE.keys) or has_known_line(root)


_FORM: Final = FileForm(
    "a cost file",
    "TYPE/INSTANCE: with costs, or costs: and present:",
    "cri-proxy select",
    _DIALECT,
    _is_cost_file,
    with_colons,
)


def _announced(listings: Iterable[CostListing]) -> CostListing:
    """Return what these listings say together of their own instances and of the kernel's; each is present."""
    listings = tuple(listings)
    own = {name for listing in listings for line in listing.lines for name in line.sources}
    own.update(name for listing in listings for name in listing.present)
    lines = tuple(line for listing in listings for each in listing.lines for line in _to_own(each, own))
    return CostListing(lines, tuple(sorted(own)))


def _to_own(line: CostLine, own: set[str]) -> Iterator[CostLine]:
    """Yield the line with those of its targets that are listed, or are the kernel's."""
    targets = tuple(name for name in line.targets if name in own or type_of(name) in SYSTEM_TYPES)
    if targets:
        yield line if len(targets) == len(line.targets) else replace(line, targets=targets)


def _refuse_beyond_names(listing: CostListing) -> None:
    count = 0
    for line in listing.lines:
        count += len(line.sources) + len(line.targets)
        if count > MAX_NAMES:
            problem = f"more than {MAX_NAMES} names in the lines of all cost files so far; write one source for many"
            raise CostError(line.line, line.sources[0], problem, line.file)
