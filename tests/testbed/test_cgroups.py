"""Finding and removing cgroup directories (plain directories stand in for cgroups here: both go by rmdir)."""

from pathlib import Path

from tests.testbed.cgroups import hierarchies, remove_tree

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def test_every_cgroup_mount_is_a_hierarchy_of_whatever_version() -> None:
    assert hierarchies(HYBRID) == (Path("/sys/fs/cgroup/cpuset"), Path("/sys/fs/cgroup/unified"))


def test_a_tree_goes_with_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "top/burstable/podU/C").mkdir(parents=True)
    assert remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_a_tree_that_does_not_exist_is_gone(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "top")


def test_what_stays_busy_is_told(tmp_path: Path) -> None:
    (tmp_path / "top/busy").mkdir(parents=True)
    (tmp_path / "top/busy/file").touch()
    assert not remove_tree(tmp_path / "top", seconds=0.01)
