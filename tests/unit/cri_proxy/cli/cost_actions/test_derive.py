import json
from pathlib import Path

import pytest

from cri_proxy.cli.cost_actions.derive import MAX_MATRIX_BYTES
from cri_proxy.cli.main import run_command

MACHINE = (
    "{packages: 2, cores: 2, threads: 2, memory: 4Gi, pci: ["
    "{address: '3b:00.0', class: 0x030200, node: 0, parent: '3a:00.0'}, "
    "{address: '3c:00.0', class: 0x020000, node: 0, parent: '3a:00.0'}, "
    "{address: 'af:00.0', class: 0x020000, node: 1}]}"
)
MATRIX = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNV4\tPIX\t0-3\t0\nGPU1\tNV4\tX\tSYS\t4-7\t1\n"


def derived(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_command(["costs", "derive", "--machine", MACHINE, *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *words: str, status: int = 1) -> str:
    assert run_command(["costs", "derive", "--machine", MACHINE, *words]) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.strip().partition(": ")[2]


@pytest.fixture
def topo(tmp_path: Path) -> str:
    path = tmp_path / "topo.txt"
    path.write_text(f"{MATRIX}NIC0\tPIX\tSYS\tX\n\nNIC Legend:\n\n  NIC0: mlx5_0\n")
    return str(path)


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_select_reads_what_is_derived_in_every_form(
    output: str, topo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = tmp_path / "costs.yaml"
    costs.write_text(derived(capsys, "--topo", topo, "--numa", "example.com/fpga/fpga0-1=1", "-o", output))
    request = "cpu=2,example.com/fpga=1,nvidia.com/gpu=1"
    assert run_command(["select", str(costs), "--request", request, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["set"] == [
        "cpu/cpu4",
        "cpu/cpu5",
        "example.com/fpga/fpga0",
        "nvidia.com/gpu/gpu1",
    ]
    request = "cpu=2,nic=1,nvidia.com/gpu=1"
    assert run_command(["select", str(costs), "--request", request, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["set"] == ["cpu/cpu0", "cpu/cpu1", "nic/mlx5_0", "nvidia.com/gpu/gpu0"]


def test_text_is_the_listing_by_source_and_ascending_cost(capsys: pytest.CaptureFixture[str]) -> None:
    text = derived(capsys)
    assert text.startswith("cpu/cpu0-1:\n  - 0:\n    - cpu/cpu0-1\n  - 10:\n    - cpu/cpu2-3\n")
    assert "pci/0000:3b:00.0:\n  - 5:\n    - pci/0000:3c:00.0\n  - 15:\n    - cpu/cpu0-3\n    - memory/node0\n" in text


def test_devices_are_printed_alone_under_the_names_of_their_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--device", "example.com/gpu/gpu0=3b:00.0", "--device", "0000:AF:00.0")
    found: dict[str, dict[str, list[str]]] = json.loads(derived(capsys, *words, "-o", "json"))
    assert found == {
        "example.com/gpu/gpu0": {
            "5": ["pci/0000:3c:00.0"],
            "15": ["cpu/cpu0-3", "memory/node0"],
            "100": ["cpu/cpu4-7", "memory/node1", "pci/0000:af:00.0"],
        },
        "pci/0000:af:00.0": {
            "15": ["cpu/cpu4-7", "memory/node1"],
            "100": ["cpu/cpu0-3", "example.com/gpu/gpu0", "memory/node0", "pci/0000:3c:00.0"],
        },
    }


def test_a_device_without_nodes_is_a_source_without_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert derived(capsys, "--numa", "example.com/fpga/fpga0=").endswith("\nexample.com/fpga/fpga0:\n")


def test_a_device_may_be_a_path_of_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sys" / "devices").mkdir(parents=True)
    assert run_command(["costs", "derive", "--machine", str(tmp_path), "--device", "/sys/class/net/eth0"]) == 1
    assert "at least one CPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--device", "0000:01:00.0"], "0000:01:00.0: the machine has no such PCI device"),
        (["--device", "eth0"], "eth0: expected a PCI address like 0000:3b:00.0, or a path of sysfs"),
        (["--device", "/sys/nothing"], "/sys/nothing: no such path at or below a PCI device"),
        (["--device", "a/b0-1=3b:00.0"], "a/b0-1: one device has one name, not a range"),
        (["--device", "gpu0=3b:00.0"], "'gpu0': expected one name of the form TYPE/INSTANCE"),
        (["--device", "a/b=3b:00.0", "--device", "a/c=3b:00.0"], "a/c=3b:00.0: --device names this one twice"),
        (["--numa", "a/b0=7"], "a/b0: the machine has no NUMA node 7, only 0-1"),
        (["--numa", "a/b0=0", "--numa", "a/b0-1=1"], "a/b0: --numa names it twice"),
        (["--topo", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_derived_is_named(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, *words).startswith(problem)


def test_a_matrix_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(MATRIX)
    assert refusal(capsys, "--topo", str(path)) == (
        f"{path}: line 1, column 12: NIC0: the matrix has a column and no row of this name; save the whole text"
    )


def test_a_matrix_beyond_any_size_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topo.txt"
    path.write_bytes(b" " * (MAX_MATRIX_BYTES + 1))
    assert refusal(capsys, "--topo", str(path)) == (
        f"{path}: larger than {MAX_MATRIX_BYTES} bytes; cut it into several files"
    )


def test_nodes_of_the_matrix_and_of_the_command_line_have_to_agree(
    topo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refusal(capsys, "--topo", topo, "--numa", "nvidia.com/gpu/gpu0=1")
    assert text.startswith("nvidia.com/gpu/gpu0: has cost")


@pytest.mark.parametrize("value", ["a/b0", "b0=1", "a/b0=x"])
def test_a_malformed_listing_of_nodes_is_wrong_usage(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--numa" in f"--numa {refusal(capsys, '--numa', value, status=2)}"
