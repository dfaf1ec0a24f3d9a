"""Stories of nodes: real processes with real connections, below a root with their files."""

import json
import os
from collections.abc import Iterator

import pytest

from cri_proxy.cli.main import run_command
from tests.fakes.kubelet_node import CONFIG, LISTEN, RUNTIME, THEIRS, KubeletNode, kubelet_node

Output = pytest.CaptureFixture[str]


@pytest.fixture
def node() -> Iterator[KubeletNode]:
    """The runtime and the proxy run, all files are right, and no kubelet runs yet."""
    with kubelet_node() as node:
        node.start_runtime()
        node.start_proxy()
        yield node


def found(output: Output) -> dict[str, list[str]]:
    """The codes of a report, by severity."""
    by_severity: dict[str, list[str]] = {"must": [], "should": [], "note": []}
    for finding in json.loads(output.readouterr().out)["findings"]:
        by_severity[finding["severity"]].append(finding["code"])
    return by_severity


def test_on_a_healthy_node_there_is_nothing_to_mend(node: KubeletNode, capsys: Output) -> None:
    pid = node.start_kubelet()
    assert node.doctor("-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["findings"], report["unseen"]) == ([], [])
    assert {"part": "kubelet", "state": f"process {pid}, connected to /{LISTEN}"} in report["seen"]


def test_a_kubelet_that_still_talks_to_containerd_is_no_ok_whatever_its_files_say(
    node: KubeletNode, capsys: Output
) -> None:
    node.start_kubelet(connects=[RUNTIME])
    assert node.doctor("-o", "json") == 1
    assert found(capsys)["must"] == ["kubelet-elsewhere"]


def test_a_static_cpu_manager_must_be_mended(node: KubeletNode, capsys: Output) -> None:
    text = (node.root / CONFIG).read_text()
    node.put({CONFIG: f"{text}cpuManagerPolicy: static\n"})
    node.start_kubelet()
    assert node.doctor("-o", "json") == 1
    assert found(capsys)["must"] == ["cpu-manager"]


def test_a_drop_in_directory_that_overrides_the_file_decides(node: KubeletNode, capsys: Output) -> None:
    drop_in = "etc/kubernetes/kubelet.conf.d/20-static.conf"
    words = ("--config=/var/lib/kubelet/config.yaml", "--config-dir=/etc/kubernetes/kubelet.conf.d")
    node.put(
        {
            drop_in: f"cpuManagerPolicy: static\ncontainerRuntimeEndpoint: {THEIRS}\n",
            "etc/default/kubelet": f"KUBELET_EXTRA_ARGS={words[1]}\n",
        }
    )
    node.start_kubelet(*words, connects=[RUNTIME])
    assert node.doctor() == 1
    text = " ".join(capsys.readouterr().out.split())
    assert f"/{drop_in} sets cpuManagerPolicy: static" in text
    assert f"set containerRuntimeEndpoint: unix:///{LISTEN} in /{drop_in}" in text


def test_files_that_changed_after_the_start_say_nothing_of_what_runs(node: KubeletNode, capsys: Output) -> None:
    node.age(node.start_kubelet())
    assert node.doctor("-o", "json") == 0
    assert found(capsys)["should"] == ["kubelet-changed"]


def test_a_daemon_that_does_not_run_must_be_started(capsys: Output) -> None:
    with kubelet_node() as node:
        node.start_runtime()
        assert node.doctor("-o", "json") == 1
    assert found(capsys) == {"must": ["proxy-stopped"], "should": [], "note": ["kubelet-stopped"]}


def test_a_second_daemon_must_be_stopped(node: KubeletNode, capsys: Output) -> None:
    node.start_kubelet()
    node.start_proxy(listens=["run/cri-proxy/second.sock"])  # of another runtime
    assert node.doctor("-o", "json") == 0
    assert found(capsys)["must"] == []
    node.start_proxy(listens=["run/cri-proxy/third.sock"], connects=[RUNTIME])
    assert node.doctor("-o", "json") == 1
    assert found(capsys)["must"] == ["second-proxy"]


def test_another_listener_on_the_socket_is_named(capsys: Output) -> None:
    with kubelet_node() as node:
        node.start_runtime()
        pid = node.start(name="socat", listens=[LISTEN])
        assert node.doctor() == 1
    assert f"socat, process {pid} listens on" in " ".join(capsys.readouterr().out.split())


def test_a_manager_of_cpusets_is_named_by_its_process_and_by_its_connection(node: KubeletNode, capsys: Output) -> None:
    node.start_kubelet()
    node.start(name="koordlet")
    (node.root / "var/run/nri").mkdir(parents=True)
    node.start(name="containerd-nri", listens=["var/run/nri/nri.sock"])
    node.start(name="logger", connects=["var/run/nri/nri.sock"])
    assert node.doctor("-o", "json") == 1
    codes = found(capsys)
    assert (codes["must"], codes["note"]) == (["cpuset-writer"], ["nri-unknown"])


def test_a_removal_is_refused_while_the_running_kubelet_is_connected(node: KubeletNode, capsys: Output) -> None:
    """Whatever its files say by now."""
    node.start_kubelet()
    node.put({CONFIG: f"containerRuntimeEndpoint: {THEIRS}\n"})
    assert node.doctor("--before-removal", "-o", "json") == 1
    assert found(capsys)["must"] == ["uses-proxy"]


def test_a_removal_is_refused_while_the_next_start_needs_the_proxy(node: KubeletNode, capsys: Output) -> None:
    assert node.doctor("--before-removal") == 1
    assert f"/{CONFIG} has unix:///{LISTEN}" in " ".join(capsys.readouterr().out.split())


def test_a_removal_is_allowed_once_the_kubelet_uses_the_runtime(node: KubeletNode, capsys: Output) -> None:
    node.put({CONFIG: f"containerRuntimeEndpoint: {THEIRS}\n"})
    node.start_kubelet(connects=[RUNTIME])
    assert node.doctor("--before-removal", "-o", "json") == 0
    assert found(capsys)["must"] == []


def test_what_cannot_be_seen_is_neither_yes_nor_no(capsys: Output) -> None:
    """A process whose descriptors may not be read: here one that is only a name in ``proc``."""
    with kubelet_node() as node:
        node.start_runtime()
        node.start_proxy()
        node.put({"proc/7/stat": f"7 (kubelet) S {' '.join(['0'] * 49)}", "proc/7/cmdline": "kubelet\0--config=/k\0"})
        node.put(
            {"k": f"containerRuntimeEndpoint: unix:///{LISTEN}\n", CONFIG: f"containerRuntimeEndpoint: {THEIRS}\n"}
        )
        (node.root / "proc/7/fd").mkdir()
        (node.root / "proc/7/fd").rmdir()
        assert node.doctor("-o", "json") == 1
        assert "whom the running kubelet talks to" in json.loads(capsys.readouterr().out)["unseen"][0]


def test_nothing_is_written(node: KubeletNode) -> None:
    node.start_kubelet()
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in node.root.rglob("*") if path.is_file())
    node.doctor()
    after = sorted((str(path), path.lstat().st_mtime_ns) for path in node.root.rglob("*") if path.is_file())
    assert before == after


@pytest.mark.skipif(os.geteuid() != 0, reason="asks what others than root are told")
def test_it_says_that_only_root_sees_enough(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run_command(["doctor"]) == 2
    assert "run it as root" in capsys.readouterr().err


def test_the_daemons_commands_are_looked_for_beside_the_socket_that_is_named(node: KubeletNode, capsys: Output) -> None:
    other = "run/elsewhere/cri-proxy.sock"
    node.put({"run/elsewhere/readme": ""})
    node.start_proxy(listens=[other])
    node.doctor("--listen", f"unix:///{other}")
    assert "run/elsewhere/admin.sock" in "".join(capsys.readouterr().out.split())
