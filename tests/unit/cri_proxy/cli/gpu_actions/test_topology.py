import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command

CONFIGS = Path(__file__).parents[5] / "configs" / "links"


def test_the_matrix_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "topology", str(CONFIGS / "server.txt"), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["gpus", "links", "nics"]
    assert found["gpus"][2] == {"index": 2, "numa": 1, "cpus": "32-63,96-127"}
    assert found["links"][1] == ["NV12", "X", "SYS", "SYS"]
    assert found["nics"][1] == {"name": "NIC1", "device": "mlx5_1", "links": ["SYS", "SYS", "PXB", "PIX"]}


def test_what_is_not_known_is_null(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("GPU0 NIC0 CPU Affinity NUMA Affinity\nGPU0 X SOC N/A N/A\nNIC0 SOC X\n")
    assert run_command(["gpu", "topology", str(tmp_path / "topo"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "gpus": [{"index": 0, "numa": None, "cpus": None}],
        "links": [["X"]],
        "nics": [{"name": "NIC0", "device": None, "links": ["SYS"]}],
    }


def test_a_gpu_on_several_nodes_has_their_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 0-1\n")
    assert run_command(["gpu", "topology", str(tmp_path / "topo"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == [{"index": 0, "numa": "0-1", "cpus": "0-7"}]


def test_nvlinks_hide_paths_and_options_change_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = 'nvlink: ["X 0", "0 X"]\npcie: [[X, "-"], ["-", X]]\noptions: {size: 2, request: 1}\n'
    (tmp_path / "two.yaml").write_text(f"{text}---\n{text.replace('X 0', 'X 3').replace('0 X', '3 X')}")
    assert run_command(["gpu", "topology", str(tmp_path / "two.yaml"), "-o", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["links"], second["links"]) == ([["X", "-"], ["-", "X"]], [["X", "NV3"], ["NV3", "X"]])


def test_a_node_without_gpus_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("No devices were found\n")
    assert run_command(["gpu", "topology", str(tmp_path / "topo")]) == 0
    assert capsys.readouterr().out == "no GPU\n"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("GPU0 GPU1\nGPU0 X NV2\nGPU1 NV1 X\n")
    assert run_command(["gpu", "topology", str(tmp_path / "topo"), "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "topo:3: column 6: NV1: GPU1 to GPU0, and NV2 back" in shown.err


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["X 1 1 0", "1 X 1 0", "1 1 X 0", "0 0 0 X"], "GPU3 has no NVLink, which other GPUs have, and is given last"),
        (["X 1 0 0", "1 X 0 0", "0 0 X 0", "0 0 0 X"], "GPU2, GPU3 have no NVLink, which other GPUs have"),
        (["X 1", "1 X"], ""),
        (["X 0", "0 X"], ""),
    ],
)
def test_gpus_without_nvlinks_beside_others_are_named(
    rows: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "some.yaml").write_text(f"nvlink: {json.dumps(rows)}")
    assert run_command(["gpu", "topology", str(tmp_path / "some.yaml")]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "no NVLink" in line] == ([told] if told else [])


def test_gpus_of_amd_have_xgmi_and_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["gpu", "topology", str(CONFIGS / "mi250x.txt"), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gpus"][1] == {"index": 1, "numa": None, "cpus": None, "address": "0000:15:00.0"}
    assert found["links"][0][:5] == ["X", "XGMI4", "XGMI", "XGMI", "XGMI/2"]
    assert run_command(["gpu", "topology", str(CONFIGS / "mi250x.txt")]) == 0
    assert "\n\nGPU0: 0000:05:00.0\n" in capsys.readouterr().out


def test_a_gpu_whose_xgmi_is_down_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "links.yaml").write_text('xgmi: ["X XGMI XGMI -", "XGMI X XGMI -", "XGMI XGMI X -", "- - - X"]\n')
    assert run_command(["gpu", "topology", str(tmp_path / "links.yaml")]) == 0
    assert "GPU3 has no XGMI, which other GPUs have, and is given last" in capsys.readouterr().out
