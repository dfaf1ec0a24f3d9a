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
        watch.note_cpuset(cpus, "web/c0")
    assert len(told) == 1
    assert "a call about web/c0 carried CPUs 1-2" in told[0]
    assert watch.warnings() == tuple(told)
