"""What ``doctor --root`` says of nodes of distributions, made up after public reports."""

import re
from dataclasses import replace

import pytest

from cri_proxy.cli.main import run_command
from tests.fakes.made_up_roots import K3S_SOCKET, OPTIONS, ROOTS, MadeUpRoot, written

Output = pytest.CaptureFixture[str]
PERFORMANCE = ROOTS["kubeadm"].with_config(f"cpuManagerPolicy: none\nmemoryManagerPolicy: None\n{OPTIONS}")
AFFINITY = "etc/systemd/system/containerd.service.d/cpu_affinity.conf"


def with_files(root: MadeUpRoot, **files: str) -> MadeUpRoot:
    return replace(root, files={**root.files, **{name.replace("__", "/"): text for name, text in files.items()}})


def said(root: MadeUpRoot, output: Output) -> str:
    with written(root) as place:
        run_command(["doctor", "--root", str(place)])
    return " ".join(output.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "musts", "nevers"),
    [
        (
            "k3s",
            ("kubelet-arg container-runtime-endpoint=unix:///run/cri-proxy", f"runtimeEndpoint: unix://{K3S_SOCKET}"),
            ("k3s: --container-runtime-endpoint", "cgroup-driver", r"in \S*00-k3s-defaults"),
        ),
        ("RKE2", ("/etc/rancher/rke2/config.yaml", "restart rke2-server"), (r"set \S+ in /var/lib/rancher",)),
        ("MicroK8s", ("/var/snap/microk8s/current/args/kubelet", "/var/snap/microk8s/common/run/containerd.sock"), ()),
        (
            "EKS (nodeadm, AL2023)",
            ("in spec.kubelet.config of NodeConfig", "keep its kubeReserved"),
            (r"in /etc/\S+json",),
        ),
        ("kubespray", ("kubelet_custom_flags",), ()),
        ("kubeadm", ("remove cpuManagerPolicyOptions from /var/lib/kubelet/config.yaml",), ()),
        ("Talos", ("cannot be used: its root is read-only", "1 thing must be mended"), ("give the kubelet",)),
        ("Bottlerocket", ("cannot be used: its root is read-only", "1 thing must be mended"), ("give the kubelet",)),
    ],
)
def test_a_node_of_a_distribution_is_told_its_own_places(
    name: str, musts: tuple[str, ...], nevers: tuple[str, ...], capsys: Output
) -> None:
    text = said(ROOTS[name], capsys)
    assert [must for must in musts if must not in text] == []
    assert [never for never in nevers if re.search(never, text)] == []


def test_options_that_stayed_after_the_policy_none_are_found(capsys: Output) -> None:
    assert "cpuManagerPolicyOptions.full-pcpus-only: true" in said(PERFORMANCE, capsys)


def test_kubevirts_plugin_is_seen_below_the_kubelets_own_directory(capsys: Output) -> None:
    root = with_files(ROOTS["kubeadm"], **{"var__lib__kubelet__device-plugins__kubevirt-kvm.sock": ""})
    assert "KubeVirt" in said(root, capsys)


def test_an_affinity_in_a_drop_in_of_the_runtime_is_seen(capsys: Output) -> None:
    root = with_files(ROOTS["kubeadm"], **{AFFINITY.replace("/", "__"): "[Service]\nCPUAffinity=0\n"})
    assert f"/{AFFINITY} sets CPUAffinity=0" in said(root, capsys)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("MicroK8s", "set --reserved-cpus=0-1 in /var/snap/microk8s/current/args/kubelet"),
        ("Canonical Kubernetes (k8s-snap)", "set --reserved-cpus=0-1 in /var/snap/k8s/common/args/kubelet"),
        ("RKE2", "set kubelet-arg reserved-cpus=0-1 in /etc/rancher/rke2/config.yaml"),
        ("EKS (nodeadm, AL2023)", "set kubeReserved.cpu: 2000m in spec.kubelet.config of NodeConfig"),
        ("kubespray", 'set reservedSystemCPUs: "0-1" in /etc/kubernetes/kubelet-config.yaml'),
    ],
)
def test_a_reservation_that_is_missing_is_put_where_the_distribution_keeps_it(
    name: str, place: str, capsys: Output
) -> None:
    ours = {"etc__cri-proxy__cri-proxy.yaml": 'reservedResources: {cpu: "cpuset:0-1"}\n'}
    assert place in said(with_files(ROOTS[name], **ours), capsys)
