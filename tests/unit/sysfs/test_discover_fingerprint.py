from pathlib import Path

import pytest

from sysfs.discover import FILES, fingerprint
from sysfs.reader import DirectoryTree
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import files_of, memory_tree, write_tree

MACHINE = small_machine()
WRITTEN = files_of(MACHINE)


def test_the_same_machine_has_the_same_fingerprint(tmp_path: Path) -> None:
    assert fingerprint(DirectoryTree(write_tree(tmp_path, MACHINE))) == fingerprint(memory_tree(WRITTEN))


@pytest.mark.parametrize("path", FILES)
def test_every_file_counts(path: str) -> None:
    assert fingerprint(memory_tree(WRITTEN | {path: "0-1,3\n"})) != fingerprint(memory_tree(WRITTEN))


def test_a_kernel_that_lacks_the_files_has_one_too() -> None:
    assert fingerprint(memory_tree({})) == ("",) * len(FILES)
