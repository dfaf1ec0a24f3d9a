import json
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.inventory.numbers import NUMBERS, DeviceNumbers
from tests.fakes.sriov_tree import TreeFunction, bind, write_nics

NIC = TreeFunction("0000:51:00.0", "mlx5_core", rdma="mlx5_0", verbs="uverbs0", interface="ens1")
VF = TreeFunction("0000:51:00.1", "mlx5_core", NIC.address, "8", "mlx5_1", "uverbs1", "umad1", "ens1v0")
DPDK = TreeFunction("0000:51:00.2", "vfio-pci", NIC.address, "9")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_nics(tmp_path / "root", NIC, VF, DPDK)


def run(root: Path, *words: str) -> int:
    return run_command(["devices", "cdi", "--sysfs-root", str(root), *words])


def names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    files = json.loads(capsys.readouterr().out)["files"]
    return [f"{each['content']['kind']}={d['name']}" for each in files for d in each["content"]["devices"]]


def test_the_devices_that_are_here_are_shown_with_what_they_give(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cri-proxy.io-rdma.json: 1 device",
        "  cri-proxy.io/rdma=0           rdma 0  mlx5_core  rdma_cm uverbs0",
        "cri-proxy.io-vf.json: 2 devices",
        "  cri-proxy.io/vf=0000:51:00.1  rdma 0  mlx5_core  rdma_cm uverbs1 umad1",
        "  cri-proxy.io/vf=0000:51:00.2  rdma 0  vfio-pci   vfio 9",
        "not written: --write /var/run/cdi writes what is shown",
    ]


def test_files_are_written_into_a_directory_and_what_became_of_them_is_told(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "--write", str(tmp_path / "cdi")) == 0
    assert f"{tmp_path}/cdi/cri-proxy.io-vf.json: 2 devices, written" in capsys.readouterr().out
    bind(root, DPDK, "")
    assert run(root, "--write", str(tmp_path / "cdi"), "-o", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [file["change"] for file in answer["files"]] == ["unchanged", "written"]
    assert "rdma 0 VF 0000:51:00.2 has no driver" in answer["refused"][0]
    shown = json.loads((tmp_path / "cdi/cri-proxy.io-vf.json").read_text())
    assert [device["name"] for device in shown["devices"]] == [VF.address]


def test_nothing_is_written_over_a_file_of_somebody_else(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cri-proxy.io-vf.json").write_text("{}")
    assert run(root, "--write", str(tmp_path)) == 1
    assert "nothing is written:" in capsys.readouterr().err


def test_numbers_are_those_of_the_daemon(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scan counts anew what the daemon numbers as it did when another NIC was there."""
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("boot\n")
    state = tmp_path / "state"
    state.mkdir(0o700)
    NUMBERS.save(state, DeviceNumbers((("rdma", "0000:11:00.0", 0), ("rdma", NIC.address, 1)), "boot"))
    assert run(root, "--state-dir", str(state), "-o", "json") == 0
    assert "cri-proxy.io/rdma=1" in names(capsys)


def test_a_file_lists_what_is_declared_and_a_scan_adds_to_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "devices.yaml"
    listed.write_text(f"rdma: [{{minor: 7, bus: {NIC.address}, vf_groups: [{{vfs: [{{bus: {VF.address}}}]}}]}}]\n")
    assert run(root, str(listed), "-o", "json") == 0
    assert names(capsys) == ["cri-proxy.io/rdma=7", f"cri-proxy.io/vf={VF.address}"]
    listed.write_text(f"rdma: [{{minor: 7, bus: {NIC.address}}}]\n")
    assert run(root, str(listed), "--scan", "-o", "json") == 0
    assert names(capsys) == ["cri-proxy.io/rdma=7", *(f"cri-proxy.io/vf={each.address}" for each in (VF, DPDK))]


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["--kind", "nic"], 2, "expected VENDOR/CLASS, as example.com/nic, got 'nic'"),
        (["/nonexistent.yaml"], 1, "/nonexistent.yaml"),
        (["--write", "/dev/null/cdi"], 1, "/dev/null/cdi: cannot be written: Not a directory"),
    ],
)
def test_what_cannot_be_used_is_named(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, error: str
) -> None:
    assert run(root, *words) == status
    assert error in capsys.readouterr().err
