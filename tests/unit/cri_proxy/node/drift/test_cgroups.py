import shutil
from pathlib import Path

import pytest

from cri_proxy.node.drift.cgroups import Cgroups, Enforced
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.cgroup_tree import CgroupTree

ID = "c0ffee"


def seen(tree: CgroupTree, container_id: str = ID) -> tuple[str, str] | None:
    found = Cgroups(tree.root).enforced(7, container_id)
    return None if found is None else (str(found.cpus), str(found.mems))


@pytest.mark.parametrize("v1", [False, True])
def test_the_sets_are_those_of_the_containers_cgroup(tmp_path: Path, v1: bool) -> None:
    tree = CgroupTree(tmp_path, v1=v1)
    tree.write(7, ID, "1-2", "0")
    assert seen(tree) == ("1-2", "0")


def test_a_cgroup_that_the_container_made_inside_is_not_its_own(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, ID, "1-2", "0", below="/init.scope")
    assert seen(tree) == ("1-2", "0")


def test_an_empty_file_means_what_is_effective(tmp_path: Path) -> None:
    CgroupTree(tmp_path).write(7, ID, "", "")
    found = Cgroups(tmp_path).enforced(7, ID)
    assert found is not None
    assert (str(found.cpus), str(found.mems), found.inherits_cpus) == ("0-7", "0-1", True)


def test_processes_that_v1_moved_to_the_pods_cgroup_have_fled_and_run_on_its_cpus(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path, v1=True)
    tree.write(7, ID, "", "0")
    tree.flee(7, ID, "0-6")
    found = Cgroups(tmp_path).enforced(7, ID)
    assert found is not None
    assert (found.has_escaped, str(found.cpus), found.path) == (True, "0-6", "/kubepods/pod-1")


def test_the_cpus_that_are_online_are_read_with_the_sets(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, ID, "1-2", "0")
    tree.write_online("0-1")
    found = Cgroups(tmp_path).enforced(7, ID)
    assert found is not None
    assert found.online == CpuSet.parse("0-1")


def test_a_pid_that_is_somebody_elses_by_now_tells_nothing(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, "other", "1-2", "0")
    assert seen(tree) is None


def test_a_container_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    assert seen(tree) is None
    shutil.rmtree(tree.write(7, ID, "1-2", "0"))
    assert seen(tree) is None


@pytest.mark.parametrize("text", ["garbage", "", "0::/../../kubepods/c0ffee\n", "3:cpu:/kubepods/c0ffee\n"])
def test_what_cannot_be_understood_tells_nothing(tmp_path: Path, text: str) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, ID, "1-2", "0")
    (tmp_path / "proc/7/cgroup").write_text(text)
    assert seen(tree) is None


@pytest.mark.parametrize(("name", "text"), [("cpuset.cpus", "0-"), ("cpuset.mems", "x")])
def test_a_set_that_is_no_list_tells_nothing(tmp_path: Path, name: str, text: str) -> None:
    tree = CgroupTree(tmp_path)
    (tree.write(7, ID, "1-2", "0") / name).write_text(text)
    assert seen(tree) is None


def test_without_the_cpuset_controller_nothing_is_told(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    (tree.write(7, ID, "1-2", "0") / "cpuset.cpus").unlink()
    assert seen(tree) is None


def test_a_scope_is_systemds_too() -> None:
    assert Enforced("/kubepods.slice/cri-containerd-1.scope", *_sets()).is_systemd_scope
    assert not Enforced("/kubepods/pod-1/1", *_sets()).is_systemd_scope


def _sets() -> tuple[CpuSet, NodeSet]:
    return CpuSet.parse("1"), NodeSet.parse("0")


SCOPE = f"cri-containerd-{ID}.scope"


def unit_of(root: Path) -> tuple[str, str]:
    found = Cgroups(root).enforced(7, ID)
    assert found is not None
    return str(found.unit.cpus), str(found.unit.mems)


def test_the_sets_of_the_scope_unit_are_those_set_last(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, SCOPE, "8-9", "0")
    assert unit_of(tmp_path) == ("None", "None")
    units = tmp_path / "run/systemd/transient"
    units.mkdir(parents=True)
    (units / SCOPE).write_text("[Scope]\nSlice=kubepods.slice\nAllowedCPUs=2-3\nAllowedMemoryNodes=0\n")
    assert unit_of(tmp_path) == ("2-3", "0")
    tree.write_unit(SCOPE, AllowedCPUs="0-2 8-14")
    assert unit_of(tmp_path) == ("0-2,8-14", "0")


def test_assignments_add_up_until_an_empty_one(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, SCOPE, "8-9", "0")
    tree.write_unit(SCOPE, AllowedCPUs="1\nAllowedCPUs=4,6")
    assert unit_of(tmp_path)[0] == "1,4,6"
    tree.write_unit(SCOPE, AllowedCPUs="1\nAllowedCPUs=")
    assert unit_of(tmp_path)[0] == "None"


def test_a_unit_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    tree.write(7, SCOPE, "8-9", "0")
    tree.write_unit(SCOPE, AllowedCPUs="0-", AllowedMemoryNodes="0")
    assert unit_of(tmp_path) == ("None", "None")


def test_on_v1_and_without_a_scope_no_unit_is_read(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path, v1=True)
    tree.write(7, SCOPE, "8-9", "0")
    tree.write_unit(SCOPE, AllowedCPUs="0-1")
    assert unit_of(tmp_path) == ("None", "None")
    other = CgroupTree(tmp_path / "v2")
    other.write(7, ID, "8-9", "0")
    other.write_unit(ID, AllowedCPUs="0-1")
    assert unit_of(other.root) == ("None", "None")
