import pytest

from cri_proxy.kubelet.distributions import DISTRIBUTIONS, PLAIN, KubernetesDistribution, known_by
from cri_proxy.kubelet.edits import UNNAMED, Edit

BY_NAME = {each.name: each for each in DISTRIBUTIONS}


def test_no_two_distributions_have_a_name_or_a_sign_in_common() -> None:
    signs = [sign for each in DISTRIBUTIONS for sign in each.signs]
    assert len(BY_NAME) == len(DISTRIBUTIONS)
    assert len({*signs}) == len(signs)


def test_a_node_is_known_by_a_file_or_by_its_release() -> None:
    assert known_by(["usr/local/bin/k3s"], "ubuntu").name == "k3s"
    assert known_by([], "talos").why_not
    assert known_by([], "debian") is PLAIN


def test_kubeadms_files_on_a_node_of_another_distribution_do_not_hide_it() -> None:
    assert known_by(["var/lib/kubelet/kubeadm-flags.env", "etc/kubernetes/kubelet.env"], "").name == "kubespray"


@pytest.mark.parametrize(
    ("name", "edit", "text"),
    [
        (
            "k3s",
            Edit("/etc/rancher/k3s/config.yaml", "--cpu-manager-policy", "none"),
            "set kubelet-arg cpu-manager-policy=none in /etc/rancher/k3s/config.yaml",
        ),
        (
            "k3s",
            Edit(
                "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf",
                "containerRuntimeEndpoint",
                "unix:///s",
            ),
            "set kubelet-arg container-runtime-endpoint=unix:///s in /etc/rancher/k3s/config.yaml",
        ),
        (
            "k3s",
            Edit("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/50-mine.conf", "cpuManagerPolicy", "none"),
            "set cpuManagerPolicy: none in /var/lib/rancher/k3s/agent/etc/kubelet.conf.d/50-mine.conf",
        ),
        ("k3s", Edit("/var/lib/kubelet/cpu_manager_state"), "delete /var/lib/kubelet/cpu_manager_state"),
        (
            "EKS (nodeadm, AL2023)",
            Edit("/etc/kubernetes/kubelet/config.json", "kubeReserved.cpu", "1"),
            'set kubeReserved.cpu: "1" in spec.kubelet.config of NodeConfig',
        ),
        (
            "EKS (nodeadm, AL2023)",
            Edit("/etc/eks/kubelet/environment", "--node-ip", "1.2.3.4"),
            "set --node-ip=1.2.3.4 in spec.kubelet.flags of NodeConfig",
        ),
        ("kubeadm", Edit("/k.yaml", "cpuManagerPolicy", "none"), "set cpuManagerPolicy: none in /k.yaml"),
        (
            "k3s",
            Edit(UNNAMED, "reservedSystemCPUs", "0-1"),
            "set kubelet-arg reserved-cpus=0-1 in /etc/rancher/k3s/config.yaml",
        ),
        (
            "MicroK8s",
            Edit(UNNAMED, "kubeReserved.cpu", "2"),
            "set --kube-reserved=cpu=2 in /var/snap/microk8s/current/args/kubelet",
        ),
        (
            "EKS (nodeadm, AL2023)",
            Edit(UNNAMED, "failCgroupV1", "false"),
            "set failCgroupV1: false in spec.kubelet.config of NodeConfig",
        ),
        ("kubeadm", Edit(UNNAMED, "failCgroupV1", "false"), f"set failCgroupV1: false in {UNNAMED}"),
    ],
)
def test_an_edit_is_made_where_it_lasts(name: str, edit: Edit, text: str) -> None:
    assert str(BY_NAME[name].lasting(edit)) == text


def test_only_the_kubelets_own_unit_is_reloaded() -> None:
    assert PLAIN.reload == "systemctl daemon-reload && systemctl restart kubelet"
    assert BY_NAME["MicroK8s"].reload == "snap restart microk8s.daemon-kubelite"


def test_a_kubelet_is_stopped_by_the_unit_that_starts_it() -> None:
    assert BY_NAME["k3s"].stop == "systemctl stop k3s (or k3s-agent)"
    assert KubernetesDistribution("x", "y", restart="reboot the node").stop == "systemctl stop kubelet"
