from pathlib import Path

import pytest

from sysfs.discover import FILES, LISTINGS, fingerprint
from sysfs.reader import DirectoryTree
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import files_of, memory_tree, tree_of, write_tree

MACHINE = small_machine()
WRITTEN = files_of(MACHINE)


def test_the_same_machine_has_the_same_fingerprint(tmp_path: Path) -> None:
    assert fingerprint(DirectoryTree(write_tree(tmp_path, MACHINE))) == fingerprint(memory_tree(WRITTEN))


@pytest.mark.parametrize("path", FILES)
def test_every_file_counts(path: str) -> None:
    assert fingerprint(memory_tree(WRITTEN | {path: "0-1,3\n"})) != fingerprint(memory_tree(WRITTEN))


def test_a_kernel_that_lacks_the_files_has_one_too() -> None:
    assert fingerprint(memory_tree({})) == ("",) * (len(LISTINGS) + len(FILES))


def test_a_pci_device_that_comes_or_goes_changes_it() -> None:
    one, two = (small_machine(pci=[{"address": f"0{n}:00.0"} for n in range(count)]) for count in (1, 2))
    assert fingerprint(tree_of(one)) != fingerprint(tree_of(two))
    assert fingerprint(tree_of(two)) == fingerprint(tree_of(two))


def test_a_nic_that_gets_or_loses_verbs_changes_it() -> None:
    """One that is bound to vfio stays on PCI, and its type becomes another."""
    with_verbs = WRITTEN | {"sys/class/infiniband/mlx5_0/node_type": "1: CA"}
    assert fingerprint(memory_tree(with_verbs)) != fingerprint(memory_tree(WRITTEN))
