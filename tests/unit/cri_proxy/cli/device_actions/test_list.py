import io
import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "devices"
MACHINE = (
    "{packages: 2, cores: 2, memory: 1Gi, pci: [{address: '0000:3b:00.0', class: '0x030200', node: 1},"
    " {address: '0000:3c:00.0', class: '0x020000', node: 1}]}"
)


def test_a_request_shows_what_is_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", str(CONFIGS / "exclusive.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "NUMA node 0",
        "  PCIe switch0",
        "    gpu 0       0000:10:00.0  80Gi of memory",
        "    rdma 0      0000:11:00.0  2 VFs (1 in use), speed=400G, 99 of 100 free",
    ]


def test_the_devices_of_a_machine_are_printed_as_an_inventory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command(["devices", "list", "--machine", MACHINE, "-o", "json"]) == 0
    text = capsys.readouterr().out
    assert [device["numa"] for device in json.loads(text)["gpu"]] == [1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["devices", "list", "-", "-o", "json"]) == 0
    assert capsys.readouterr().out == text


def test_a_file_and_a_machine_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", "a.yaml", "--machine", "host"]) == 2
    assert "leave one out" in capsys.readouterr().err


def test_a_machine_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", "--machine", "/nonexistent"]) == 1
    assert capsys.readouterr().err.startswith("cri-proxy devices: ")
