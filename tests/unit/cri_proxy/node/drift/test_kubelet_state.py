import json
from pathlib import Path

import pytest

from cri_proxy.node.drift.kubelet_state import MAX_STATE_BYTES, KubeletManagers, read_managers

STATIC = {"policyName": "static", "defaultCpuSet": "0,4-7", "entries": {"uid": {"c0": "1-3"}}, "checksum": 1}


def test_a_static_cpu_manager_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(json.dumps(STATIC))
    (warning,) = read_managers(tmp_path).warnings()
    for words in ("policy static", "cpuManagerPolicy: none", "delete cpu_manager_state", "restart the kubelet"):
        assert words in warning


def test_the_memory_manager_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "memory_manager_state").write_text('{"policyName": "Static"}')
    (warning,) = read_managers(tmp_path).warnings()
    assert "memoryManagerPolicy: None" in warning


def test_the_sets_that_it_gives_out_are_known(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(json.dumps(STATIC))
    assert [str(cpus) for cpus in read_managers(tmp_path).sets] == ["0,4-7", "1-3"]


@pytest.mark.parametrize("policy", ["none", "None"])
def test_managers_that_are_off_are_no_matter(tmp_path: Path, policy: str) -> None:
    for name in ("cpu_manager_state", "memory_manager_state"):
        (tmp_path / name).write_text(json.dumps({"policyName": policy, "defaultCpuSet": ""}))
    assert read_managers(tmp_path).warnings() == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"policyName": 3, "defaultCpuSet": "0-", "entries": [1]}', "\0"])
def test_a_file_that_cannot_be_understood_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpu_manager_state").write_text(text)
    assert read_managers(tmp_path) == KubeletManagers(damaged=("cpu_manager_state",))


def test_a_file_that_is_too_long_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(" " * MAX_STATE_BYTES + json.dumps(STATIC))
    assert read_managers(tmp_path) == KubeletManagers()


@pytest.mark.parametrize(("bytes_too_many", "sets"), [(0, 2), (1, 0)])
def test_a_file_is_read_up_to_a_bound(tmp_path: Path, bytes_too_many: int, sets: int) -> None:
    text = json.dumps(STATIC)
    (tmp_path / "cpu_manager_state").write_text(" " * (MAX_STATE_BYTES - len(text) + bytes_too_many) + text)
    assert len(read_managers(tmp_path).sets) == sets


def test_without_a_kubelet_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert read_managers(tmp_path / "nowhere").warnings() == ()
