from pathlib import Path

import pytest

from cri_proxy.config.settings import host_node_name
from cri_proxy.kubelet.distribution_files import distribution_of, distribution_words, kubelet_node_name
from tests.fakes.made_up_roots import K3S_SOCKET, ROOTS, put

K3S = "etc/rancher/k3s/config.yaml"


def words(root: Path) -> list[tuple[str, str]]:
    return [(word.text, word.where) for word in distribution_words(root, distribution_of(root))]


@pytest.mark.parametrize("name", ROOTS)
def test_each_distribution_is_known_by_its_files(name: str, tmp_path: Path) -> None:
    for path, text in ROOTS[name].files.items():
        put(tmp_path, path, text)
    assert name.startswith(distribution_of(tmp_path).name)
    assert distribution_of(tmp_path).name


def test_arguments_for_the_kubelet_come_after_what_k3s_chooses(tmp_path: Path) -> None:
    put(tmp_path, K3S, "node-name: edge\nkubelet-arg: [a=1]\n")
    put(tmp_path, f"{K3S}.d/10.yaml", "kubelet-arg+: [b=2]\n")
    assert words(tmp_path) == [
        (f"--container-runtime-endpoint=unix://{K3S_SOCKET}", "k3s"),
        ("--hostname-override=edge", f"/{K3S}"),
        ("--a=1", f"/{K3S}"),
        ("--b=2", f"/{K3S}.d/10.yaml"),
    ]


def test_drop_ins_of_k3s_are_read_where_it_has_them(tmp_path: Path) -> None:
    put(tmp_path, K3S, "kubelet-arg: a=1\n")
    put(tmp_path, "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf", "{}")
    assert [text for text, _ in words(tmp_path)] == [
        "--config-dir=/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
        "--a=1",
    ]


def test_another_runtime_that_k3s_is_told_is_the_one_behind_us(tmp_path: Path) -> None:
    put(tmp_path, K3S, "container-runtime-endpoint: unix:///run/containerd/containerd.sock\n")
    assert distribution_of(tmp_path).runtime == "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("units", "restart"),
    [
        ([], "systemctl restart k3s (or k3s-agent)"),
        (["k3s.service"], "systemctl restart k3s"),
        (["k3s-agent.service"], "systemctl restart k3s-agent"),
        (["k3s.service", "k3s-agent.service"], "systemctl restart k3s (or k3s-agent)"),
    ],
)
def test_the_service_that_runs_the_kubelet_is_the_one_whose_unit_is_there(
    units: list[str], restart: str, tmp_path: Path
) -> None:
    put(tmp_path, K3S, "kubelet-arg: a=1\n")
    for unit in units:
        put(tmp_path, f"etc/systemd/system/{unit}", "[Service]\n")
    found = distribution_of(tmp_path)
    assert (found.restart, found.stop) == (restart, restart.replace("restart", "stop"))


@pytest.mark.parametrize("text", ["- a", "kubelet-arg: [", ""])
def test_a_configuration_that_is_none_has_no_arguments(text: str, tmp_path: Path) -> None:
    put(tmp_path, K3S, text)
    assert len(words(tmp_path)) == 1


def test_snaps_hold_a_flag_on_each_line(tmp_path: Path) -> None:
    put(
        tmp_path,
        "var/snap/microk8s/current/args/kubelet",
        '# a remark\n--a="x y"\n--root-dir=${SNAP_COMMON}/k\n--b="\n',
    )
    assert [text for text, _ in words(tmp_path)] == ["--a=x y", "--root-dir=/var/snap/microk8s/common/k"]


def test_a_node_that_nobody_knows_starts_its_kubelet_by_the_unit(tmp_path: Path) -> None:
    assert (distribution_of(tmp_path).name, words(tmp_path)) == ("", [])


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({}, ""),
        ({"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--hostname-override=Pool-7\n"}, "pool-7"),
        ({"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--hostname-override=a/b\n"}, ""),
        ({K3S: "node-name: edge-1\n"}, "edge-1"),
    ],
)
def test_the_node_has_the_name_of_the_kubelets_flag(files: dict[str, str], name: str, tmp_path: Path) -> None:
    for path, text in files.items():
        put(tmp_path, path, text)
    assert kubelet_node_name(tmp_path) == (name or host_node_name())
