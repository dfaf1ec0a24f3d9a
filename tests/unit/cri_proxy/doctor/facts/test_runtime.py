from pathlib import Path

import pytest

from cri_proxy.doctor.facts.model import ProcessFacts, RuntimeFacts
from cri_proxy.doctor.facts.runtime import program_version, read_containerd

V2 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\nSystemdCgroup = {}\n'
V3 = 'version = 3\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]\nSystemdCgroup = {}\n'
CONFIG = "/etc/containerd/config.toml"


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def read(root: Path, text: str, *words: str) -> RuntimeFacts:
    put(root, "etc/containerd/config.toml", text)
    return read_containerd(root, [ProcessFacts(3, "sh"), ProcessFacts(4, "containerd", ("containerd", *words))])


@pytest.mark.parametrize("form", [V2, V3])
@pytest.mark.parametrize(("value", "is_systemd"), [("true", True), ("false", False)])
def test_the_driver_is_found_in_both_versions(tmp_path: Path, form: str, value: str, is_systemd: bool) -> None:
    assert read(tmp_path, form.format(value)) == RuntimeFacts(config=CONFIG, is_systemd=is_systemd)


def test_an_imported_file_overrides(tmp_path: Path) -> None:
    put(tmp_path, "etc/containerd/conf.d/10.toml", V3.format("true"))
    found = read(tmp_path, f'imports = ["/etc/containerd/conf.d/*.toml"]\n{V3.format("false")}')
    assert found == RuntimeFacts(config="/etc/containerd/conf.d/10.toml", is_systemd=True)


def test_the_default_runtime_is_the_one_that_counts(tmp_path: Path) -> None:
    text = (
        '[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "crun"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]\n'
        'SystemdCgroup = true\nBinaryName = "/opt/runc"\n'
    )
    assert read(tmp_path, text) == RuntimeFacts(config=CONFIG, is_systemd=True, runc="/opt/runc")


@pytest.mark.parametrize("words", [("--config", "/c.toml"), ("--config=/c.toml",), ("-c", "/c.toml")])
def test_the_command_line_of_the_running_containerd_names_the_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    put(tmp_path, "c.toml", V3.format("true"))
    assert read(tmp_path, V3.format("false"), *words).is_systemd is True


def test_a_container_names_no_file_that_is_believed(tmp_path: Path) -> None:
    """The file names a program that doctor runs."""
    put(tmp_path, "pod.toml", V3.format("true"))
    pod = ProcessFacts(4, "containerd", ("containerd", "--config=/pod.toml"), is_contained=True)
    assert read_containerd(tmp_path, [pod]).is_systemd is None


@pytest.mark.parametrize("text", ["", "[", 'plugins = 3\nimports = "x"', 'imports = [3, "relative"]'])
def test_a_file_that_does_not_say_leaves_the_default_of_a_running_containerd(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).is_systemd is False
    assert read_containerd(tmp_path / "none", []).is_systemd is None


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_runc_says_its_version(tmp_path: Path) -> None:
    assert (
        program_version(Path("/"), script(tmp_path / "runc", "echo runc version 1.1.5+ds1; echo spec: 1.0.2"))
        == "1.1.5+ds1"
    )


def test_a_program_that_says_something_else_or_is_missing_has_no_version(tmp_path: Path) -> None:
    assert program_version(Path("/"), script(tmp_path / "crun", "echo crun version 1.8")) == ""
    assert program_version(Path("/"), str(tmp_path / "none")) == ""


def test_nothing_below_another_root_is_run(tmp_path: Path) -> None:
    script(tmp_path / "runc", "echo runc version 1.1.5")
    assert program_version(tmp_path, str(tmp_path / "runc")) == ""


def test_the_kubelet_says_its_version_in_its_own_way(tmp_path: Path) -> None:
    assert program_version(Path("/"), script(tmp_path / "kubelet", "echo Kubernetes v1.36.3")) == "1.36.3"
