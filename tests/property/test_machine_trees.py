"""Whatever stands in the files: a sound machine, a note, or an error that names the file; never anything else."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysfs.assemble import assemble
from sysfs.cpuset import CpuSet
from sysfs.discover import discover_tree
from sysfs.errors import SysfsError
from sysfs.model import Machine
from tests.fakes.machines import facts_of, machines, small_machine
from tests.fakes.sysfs_tree import files_of, links_of, memory_tree, tree_of


def rich_machine() -> Machine:
    """One of everything that discovery reads."""
    plain = small_machine(
        isolated="3",
        offline="5",
        efficiency="6-7",
        memory_nodes=[{"memory": "8Gi", "near": {0: 17}, "kind": "pmem"}],
        pci=[{"address": "10:01.0", "class": 0x060400, "node": 0}, {"address": "11:00.0", "parent": "10:01.0"}],
    )
    facts = facts_of(plain)
    cpus = [replace(c, base_frequency_khz=2_000_000, energy_preference="power") for c in facts.cpus]
    caches = [replace(c, size_bytes=1 << 20) for c in facts.caches]
    return assemble(replace(facts, cpus=cpus, caches=caches))


RICH = rich_machine()
FILES, LINKS = files_of(RICH), links_of(RICH)
# All files of the machine, but of CPUs that are like the others.
PATHS = [path for path in FILES if not re.search("/(?:cpu|policy)[1-4]/", path)]
GARBAGE = ["0-", "garbage", "3-1", "1,,2", "0x", b"\0\xff", "9" * 30, "1" * 70_000]
FREE_TEXT = "energy_performance_preference"  # any text will do
# An older kernel has none of these, and a machine may truly have no isolated CPUs.
MAY_BE_MISSING = ("isolated", "die_id", "size", "base_frequency", FREE_TEXT, "cpu_atom/cpus", "has_cpu")
# A device on a node without CPUs is local to none.
MAY_BE_EMPTY = ("local_cpulist", "isolated", "cpu_atom/cpus", "has_cpu", FREE_TEXT)


def outcome_of(files: Mapping[str, str | bytes]) -> Machine | SysfsError:
    try:
        return discover_tree(memory_tree(files, LINKS))
    except SysfsError as error:
        return error


def corrupted(path: str, content: str | bytes) -> Machine | SysfsError:
    return outcome_of({**FILES, path: content})


def without(path: str, more: Mapping[str, str]) -> Machine | SysfsError:
    return outcome_of({p: c for p, c in {**FILES, **more}.items() if p != path})


def is_named(path: str, outcome: Machine | SysfsError) -> bool:
    """The file is named in the error or in a note, or did not matter at all."""
    if isinstance(outcome, SysfsError):
        return path in str(outcome)
    return outcome == RICH or any(path in note or "overlap" in note for note in outcome.notes)


def test_the_rich_machine_reads_back_as_it_was_written() -> None:
    assert discover_tree(memory_tree(FILES, LINKS)) == RICH


@pytest.mark.parametrize("content", GARBAGE, ids=lambda c: repr(c[:8]))
def test_garbage_in_any_file_is_an_error_or_a_note_that_names_it(content: str | bytes) -> None:
    paths = [path for path in PATHS if FREE_TEXT not in path]
    assert [path for path in paths if not is_named(path, corrupted(path, content))] == []


def test_any_empty_file_is_an_error_or_a_note_that_names_it() -> None:
    paths = [path for path in PATHS if not path.endswith(MAY_BE_EMPTY)]
    assert [path for path in paths if not is_named(path, corrupted(path, "\n"))] == []


def test_any_file_that_cannot_be_read_is_an_error_or_a_note_that_names_it() -> None:
    failed = {path: without(path, {"capture-errors.txt": f"EIO {path}"}) for path in PATHS}
    assert [path for path, outcome in failed.items() if not is_named(path, outcome)] == []


def test_any_missing_file_is_an_error_that_names_it_or_a_note() -> None:
    paths = [path for path in PATHS if not path.endswith(MAY_BE_MISSING)]
    outcomes = {path: without(path, {}) for path in paths}
    noted = {p for p, outcome in outcomes.items() if isinstance(outcome, Machine) and outcome.notes}
    assert [p for p in paths if p not in noted and not is_named(p, outcomes[p])] == []


digits = st.text(alphabet="0123456789,- \n", max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FILES)), st.one_of(digits, st.binary(max_size=20)))
def test_any_content_gives_a_sound_machine_or_our_error(path: str, content: str | bytes) -> None:
    outcome = corrupted(path, content)
    if isinstance(outcome, Machine):
        assert outcome.online == CpuSet.of(c.id for c in outcome.cpus)
        for level in (outcome.packages, outcome.dies, outcome.cores, outcome.nodes):
            assert sum(len(holder.cpus) for holder in level) == len(outcome.online)


@settings(max_examples=30, deadline=None)
@given(machines(max_cpus=48))
def test_every_machine_reads_back_from_its_tree(machine: Machine) -> None:
    """Except the kinds of memory: they follow from sizes when they are not told."""
    read = discover_tree(tree_of(machine))
    kinds = {n.id: n.kind for n in machine.nodes}
    assert replace(read, nodes=tuple(replace(n, kind=kinds[n.id]) for n in read.nodes)) == machine
