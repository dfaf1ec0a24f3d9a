"""The script that says whether the kubelet talks to the proxy, on files as kubeadm and operators leave them."""

import configparser
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SCRIPT = ROOT / "packaging" / "kubelet" / "check_kubelet.py"
DROP_IN = ROOT / "packaging" / "kubelet.service.d" / "10-cri-proxy.conf"
OURS = "unix:///run/cri-proxy/cri-proxy.sock"
THEIRS = "unix:///run/containerd/containerd.sock"
CONFIG = "var/lib/kubelet/config.yaml"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
INSTANCE = "var/lib/kubelet/instance-config.yaml"
INSTALLED = "etc/systemd/system/kubelet.service.d/10-cri-proxy.conf"


def flags(endpoint: str) -> str:
    """As kubeadm writes them."""
    return f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={endpoint} --pod-infra-container-image=pause:3.9"\n'


def config(endpoint: str) -> str:
    return f"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: {endpoint}\ncgroupDriver: systemd\n"


def process(name: str, *words: str) -> dict[str, str]:
    stat = f"7 ({name}) S " + " ".join(["0"] * 49)
    return {"proc/7/stat": stat, "proc/7/cmdline": "".join(f"{word}\0" for word in (name, *words))}


def check(root: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    command = [sys.executable, str(SCRIPT), "--root", str(root), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


def uses_proxy(root: Path, files: dict[str, str]) -> bool:
    """Whether the kubelet will use the proxy. An exit status of neither yes nor no fails."""
    done = check(root, files, "--uses-proxy")
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


@pytest.mark.parametrize(
    ("files", "is_wired"),
    [
        ({}, False),
        ({CONFIG: config(OURS)}, True),
        ({CONFIG: config('"' + OURS + '"')}, True),
        ({CONFIG: config("/run/cri-proxy/cri-proxy.sock")}, True),
        ({FLAGS: flags(OURS)}, True),
        ({FLAGS: flags(THEIRS), CONFIG: config(OURS)}, False),
        ({FLAGS: flags(THEIRS), INSTALLED: DROP_IN.read_text()}, True),
        ({INSTALLED: DROP_IN.read_text(), "etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n"}, False),
        ({INSTALLED: DROP_IN.read_text(), "etc/default/kubelet": "# nothing\n"}, True),
        (
            {
                FLAGS: flags(THEIRS),
                "etc/sysconfig/kubelet": f"KUBELET_EXTRA_ARGS=--container-runtime-endpoint {OURS}\n",
            },
            True,
        ),
        (process("kubelet", f"--container-runtime-endpoint={OURS}"), True),
        (process("kubelet", "--container-runtime-endpoint", OURS), True),
        (process("kubelet", "--config=x"), False),
        (process("other", f"--container-runtime-endpoint={OURS}"), False),
    ],
)
def test_the_strongest_place_decides(tmp_path: Path, files: dict[str, str], is_wired: bool) -> None:
    assert uses_proxy(tmp_path, files) is is_wired


def test_what_beats_the_configuration_is_named(tmp_path: Path) -> None:
    done = check(tmp_path, {FLAGS: flags(THEIRS), CONFIG: config(OURS)})
    assert done.returncode == 1
    assert f"change: /{FLAGS}: says {THEIRS}" in done.stdout


def test_an_environment_file_that_leaves_the_drop_in_without_effect_is_named(tmp_path: Path) -> None:
    """The packages of pkgs.k8s.io install such a file."""
    files = {FLAGS: flags(THEIRS), INSTALLED: DROP_IN.read_text(), "etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n"}
    told = [line for line in check(tmp_path, files).stdout.splitlines() if "EXTRA_ARGS" in line or FLAGS in line]
    assert told == [
        f"change: /etc/default/kubelet: sets KUBELET_EXTRA_ARGS, so /{INSTALLED} has no effect: "
        f"add --container-runtime-endpoint={OURS} to the value"
    ]


def test_a_kubelet_that_was_not_restarted_is_named(tmp_path: Path) -> None:
    running = process("kubelet", f"--container-runtime-endpoint={THEIRS}")
    done = check(tmp_path, {CONFIG: config(OURS), **running})
    assert f"change: the running kubelet (process 7) uses {THEIRS}: restart it" in done.stdout


def test_what_an_upgrade_of_kubeadm_would_put_back_is_named(tmp_path: Path) -> None:
    done = check(tmp_path, {FLAGS: flags(OURS), INSTANCE: config(THEIRS)})
    assert f"change: /{INSTANCE}: says {THEIRS}" in done.stdout
    assert f"--overwrite kubeadm.alpha.kubernetes.io/cri-socket={OURS}" in done.stdout


def test_a_proxy_that_does_not_run_is_named(tmp_path: Path) -> None:
    done = check(tmp_path, {CONFIG: config(OURS)})
    assert "No such file or directory: is cri-proxy.service active?" in done.stdout
    assert done.returncode == 1


def test_a_wired_node_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(str(tmp_path / "s" / "p"))
        proxy.listen()

        def speak() -> None:
            client, _ = proxy.accept()
            with client:
                client.sendall(client.recv(1))

        speaking = threading.Thread(target=speak)
        speaking.start()
        done = check(tmp_path, {CONFIG: config("unix:///s/p")}, "--endpoint", "unix:///s/p")
        speaking.join()
    assert (done.returncode, done.stdout) == (0, "ok:     the kubelet uses unix:///s/p, and it answers\n")


def test_without_psutil_the_answer_is_neither_yes_nor_no(tmp_path: Path) -> None:
    """The package's removal takes only a no for a no."""
    command = [sys.executable, "-IS", str(SCRIPT), "--root", str(tmp_path), "--uses-proxy"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "psutil is missing" in done.stderr


def test_nothing_is_written(tmp_path: Path) -> None:
    check(tmp_path, {FLAGS: flags(THEIRS), CONFIG: config(OURS)})
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == sorted([FLAGS, CONFIG])


def test_the_drop_in_does_not_tie_the_kubelets_life_to_ours() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DROP_IN)
    assert set(unit["Unit"]) == {"Wants", "After"}
