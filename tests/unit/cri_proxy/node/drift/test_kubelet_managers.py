import json
from pathlib import Path

from cri_proxy.node.drift.kubelet_managers import ManagerWatch

STATIC = {"policyName": "static", "defaultCpuSet": "0,4-7", "entries": {"uid": {"c0": "1-3"}}, "checksum": 1}


async def test_each_manager_is_told_of_once(tmp_path: Path) -> None:
    told: list[str] = []
    watch = ManagerWatch(tmp_path, told.append)
    for text in ('{"policyName": "none"}', json.dumps(STATIC), json.dumps(STATIC)):
        (tmp_path / "cpu_manager_state").write_text(text)
        await watch.look()
    assert len(told) == 1
    assert watch.warnings() == tuple(told)


async def test_a_remedy_that_was_followed_ends_the_warning(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(json.dumps(STATIC))
    watch = ManagerWatch(tmp_path, lambda _: None)
    await watch.look()
    (tmp_path / "cpu_manager_state").unlink()
    await watch.look()
    assert watch.warnings() == ()


def test_cpus_that_a_call_carries_betray_the_manager_once(tmp_path: Path) -> None:
    told: list[str] = []
    watch = ManagerWatch(tmp_path, told.append)
    for cpus in ("", "1-2", "1-2"):
        watch.note_cpuset(cpus, "default/web/c0")
    assert len(told) == 1
    assert "a call about default/web/c0 carried CPUs 1-2" in told[0]
    assert watch.warnings() == tuple(told)


def test_a_create_without_cpus_ends_the_warning_and_an_update_without_does_not() -> None:
    """A static manager sets the CPUs of every container when it is created, and updates what differs."""
    told: list[str] = []
    watch = ManagerWatch(Path("/nowhere"), told.append)
    watch.note_cpuset("1-2", "default/web/c0", is_create=True)
    watch.note_cpuset("", "default/web/c0")
    assert watch.warnings() == tuple(told)
    watch.note_cpuset("", "default/db/c0", is_create=True)
    assert watch.warnings() == ()
    watch.note_cpuset("3", "default/db/c0")
    assert watch.warnings() == (told[1],)


async def test_a_state_file_that_says_none_ends_the_warning_of_calls_before_it(tmp_path: Path) -> None:
    watch = ManagerWatch(tmp_path, lambda _: None)
    watch.note_cpuset("1-2", "default/web/c0", is_create=True)
    await watch.look()
    assert watch.warnings()  # no file says anything
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "none"}')
    watch.note_cpuset("1-2", "default/web/c0")
    await watch.look()
    assert watch.warnings()  # a call has carried CPUs since the last look: the file is not that caller's
    await watch.look()
    assert watch.warnings() == ()
