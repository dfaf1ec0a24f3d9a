from pathlib import Path

import pytest

from cri_proxy.node.drift.cgroups import Cgroups
from cri_proxy.node.drift.scope_unit import SystemdScopes
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.cgroup_tree import CgroupTree

ID = "c0ffee"
SCOPE = f"cri-containerd-{ID}.scope"
ALL = Pinning(CpuSet.parse("0-11"), NodeSet.parse("0-1"))


class Scene:
    """A container whose unit is what runc 1.1.5 made of 0-11, and a systemctl that writes down its arguments."""

    def __init__(self, root: Path) -> None:
        self.tree = CgroupTree(root)
        self.tree.write(7, SCOPE, "0-11", "0-1")
        self.tree.write_unit(SCOPE, AllowedCPUs="0-3 8-15")
        self.called = root / "called"
        self.program = root / "systemctl"
        self.seconds = 10.0
        self.script("")

    def script(self, text: str) -> None:
        self.program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{self.called}"\n{text}\n')
        self.program.chmod(0o755)

    async def correct(self, wanted: Pinning = ALL, *, pid: int = 7) -> str:
        units = SystemdScopes(Cgroups(self.tree.root), [str(self.program)], seconds=self.seconds)
        return await units.correct(pid, ID, wanted)

    def words(self) -> list[str]:
        return self.called.read_text().split() if self.called.exists() else []


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_unit_with_other_cpus_gets_the_list(scene: Scene) -> None:
    assert await scene.correct() == ""
    assert scene.words() == ["set-property", "--runtime", "--", SCOPE, "AllowedCPUs=0-11"]


async def test_memory_nodes_are_corrected_likewise(scene: Scene) -> None:
    scene.tree.write_unit(SCOPE, AllowedMemoryNodes="0")
    await scene.correct()
    assert scene.words()[-2:] == ["AllowedCPUs=0-11", "AllowedMemoryNodes=0-1"]


async def test_a_unit_that_has_the_sets_already_is_left_alone(scene: Scene) -> None:
    scene.tree.write_unit(SCOPE, AllowedCPUs="0-11", AllowedMemoryNodes="0-1")
    assert (await scene.correct(), scene.words()) == ("", [])


async def test_what_is_not_wanted_is_not_written(scene: Scene) -> None:
    assert (await scene.correct(Pinning(None, ALL.mems)), scene.words()) == ("", [])


@pytest.mark.parametrize("pid", [0, 8])
async def test_a_container_that_is_gone_has_no_unit(scene: Scene, pid: int) -> None:
    assert (await scene.correct(pid=pid), scene.words()) == ("", [])


async def test_a_refusal_names_the_command_and_what_comes_of_it(scene: Scene) -> None:
    scene.script("echo 'Unit not loaded.' >&2; exit 1")
    assert await scene.correct() == (
        f"the next daemon-reload moves it to CPUs 0-3,8-15: `systemctl set-property --runtime -- {SCOPE} "
        "AllowedCPUs=0-11` failed: Unit not loaded."
    )
    scene.script("exit 3")
    assert (await scene.correct()).endswith("failed: status 3")


async def test_a_machine_without_systemctl_says_so(scene: Scene) -> None:
    scene.program.unlink()
    assert (await scene.correct()).endswith("failed: No such file or directory")


async def test_a_systemctl_that_does_not_end_is_ended(scene: Scene) -> None:
    scene.script("exec sleep 600")
    scene.seconds = 0.01
    assert (await scene.correct()).endswith("failed: no answer within 0.01 s")
