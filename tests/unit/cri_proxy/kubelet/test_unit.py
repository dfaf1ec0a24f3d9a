"""The command line of the kubelet's next start, from its unit as packages and people leave it."""

from pathlib import Path

from cri_proxy.kubelet.files import ASSUMED
from cri_proxy.kubelet.reservation import KubeletReserve
from cri_proxy.kubelet.settings import ENDPOINT, Setting, merge_settings
from cri_proxy.kubelet.unit import read_reserve, read_unit
from sysfs.cpuset import CpuSet

FLAG = "--container-runtime-endpoint"
DROP_INS = "etc/systemd/system/kubelet.service.d"


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def endpoint(root: Path, files: dict[str, str]) -> Setting:
    return merge_settings(read_unit(lay_out(root, files)).words, []).get(ENDPOINT)


def test_without_a_unit_it_is_kubeadms(tmp_path: Path) -> None:
    unit = read_unit(tmp_path)
    assert ("--config=/var/lib/kubelet/config.yaml", ASSUMED) in [(word.text, word.where) for word in unit.words]
    assert unit.files == ()


def test_the_last_flag_of_kubeadms_command_line_counts(tmp_path: Path) -> None:
    files = {
        "var/lib/kubelet/kubeadm-flags.env": f'KUBELET_KUBEADM_ARGS="{FLAG}=unix:///a --x=y"\n',
        "etc/default/kubelet": f"KUBELET_EXTRA_ARGS={FLAG}=unix:///b\n",
    }
    found = endpoint(tmp_path, files)
    assert (found.value, found.where) == ("unix:///b", f"/etc/default/kubelet, {FLAG}")


def test_a_unit_of_its_own_is_read_with_its_variables(tmp_path: Path) -> None:
    files = {
        "etc/systemd/system/kubelet.service": "[Unit]\nExecStart=no\n[Service]\nEnvironment='SOCKET=unix:///c' X=1\n"
        f"ExecStart=/opt/kubelet \\\n  {FLAG}=${{SOCKET}} $NONE ${{NONE}}\n",
        "usr/lib/systemd/system/kubelet.service": f"[Service]\nExecStart=/usr/bin/kubelet {FLAG}=unix:///weak\n",
    }
    found = endpoint(tmp_path, files)
    assert (found.value, found.where) == ("unix:///c", f"/etc/systemd/system/kubelet.service, {FLAG}")


def test_drop_ins_are_read_by_name_and_an_empty_value_resets(tmp_path: Path) -> None:
    files = {
        "etc/systemd/system/kubelet.service": "[Service]\nEnvironment=A=unix:///a\nExecStart=kubelet\n",
        "usr/lib/systemd/system/kubelet.service.d/20.conf": "[Service]\nEnvironment=A=unix:///lost\n",
        f"{DROP_INS}/20.conf": f"[Service]\nExecStart=\nExecStart=kubelet {FLAG} $A\n",
        f"{DROP_INS}/30.conf": "[Service]\n# Environment=A=unix:///remark\nEnvironment=\nEnvironment=A=unix:///d\n",
    }
    assert endpoint(tmp_path, files).value == "unix:///d"
    assert read_unit(tmp_path).files[1:] == (f"/{DROP_INS}/20.conf", f"/{DROP_INS}/30.conf")


def test_a_file_beats_the_units_own_value_and_keeps_it_in_sight(tmp_path: Path) -> None:
    files = {
        f"{DROP_INS}/10.conf": f'[Service]\nEnvironment="KUBELET_EXTRA_ARGS={FLAG}=unix:///d"\n',
        "etc/default/kubelet": "# remark\nKUBELET_EXTRA_ARGS=\n",
    }
    variable = read_unit(lay_out(tmp_path, files)).variable("KUBELET_EXTRA_ARGS")
    assert variable
    assert (variable.value, variable.where) == ("", "/etc/default/kubelet")
    assert variable.hidden
    assert (variable.hidden.value, variable.hidden.where) == (f"{FLAG}=unix:///d", f"/{DROP_INS}/10.conf")


def test_the_unit_resets_its_environment_files(tmp_path: Path) -> None:
    files = {
        f"{DROP_INS}/10.conf": "[Service]\nEnvironmentFile=\nEnvironmentFile=/etc/mine\nExecStart=kubelet $A\n",
        "etc/default/kubelet": "A=--x\n",
        "etc/mine": f"export A='{FLAG}=unix:///e'\n",
    }
    assert endpoint(tmp_path, files).value == "unix:///e"


def test_a_quote_that_stays_open_is_taken_as_it_stands(tmp_path: Path) -> None:
    assert endpoint(tmp_path, {"etc/default/kubelet": f'KUBELET_EXTRA_ARGS="{FLAG}=unix:///f\n'}).is_default


def test_what_the_kubelet_reserves_is_what_its_next_start_reserves(tmp_path: Path) -> None:
    """The flags of the unit beat the configuration that it names."""
    files = {"var/lib/kubelet/config.yaml": "systemReserved: {cpu: 500m}\nkubeReserved: {cpu: 250m}\n"}
    root = lay_out(tmp_path, files)
    assert read_reserve(root, root / "nowhere") == KubeletReserve(CpuSet(), 500, 250)
    lay_out(root, {"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--reserved-cpus=0-1\n"})
    found = read_reserve(root, root / "nowhere")
    assert found
    assert found.mcpu == 2000


def test_without_a_unit_the_configuration_in_the_kubelets_directory_says_what_is_reserved(tmp_path: Path) -> None:
    assert read_reserve(tmp_path, tmp_path / "k") is None
    lay_out(tmp_path, {"k/config.yaml": 'reservedSystemCPUs: "0"\n'})
    assert read_reserve(tmp_path, tmp_path / "k") == KubeletReserve(CpuSet.parse("0"))
    lay_out(tmp_path, {"k/config.yaml": "["})
    assert read_reserve(tmp_path, tmp_path / "k") is None
