"""What is done to a node of each kind, and which nodes are left as they are, with the remedy."""

from dataclasses import replace

import pytest

from cri_proxy.installer.host import Content
from cri_proxy.installer.plan import CannotInstall, plan
from tests.fakes.installer_host import Rig, rig, write_release
from tests.fakes.made_up_roots import OURS, looked_at, put

VENV = "/opt/cri-proxy/pyvenv.cfg"


def planned(made: Rig) -> list[str]:
    return [
        action.name
        for action in plan(made.host, made.host.root, looked_at(made.host.root), made.wanted("one"), None).actions
    ]


def test_the_kubelet_is_changed_last_and_under_guard() -> None:
    with rig("kubeadm") as made:
        names = planned(made)
    order = ["copy the release", "start the daemon", "wait until the daemon is ready", "start the guard"]
    order += ["restart the kubelet", "wait until the Node is Ready"]
    assert [name for name in names if name in order] == order
    assert f"set --container-runtime-endpoint={OURS} in /var/lib/kubelet/kubeadm-flags.env" in names


@pytest.mark.parametrize(
    ("name", "unit", "command"),
    [
        ("k3s", "k3s.service", ("systemctl", "restart", "k3s.service")),
        ("RKE2", "rke2-server.service", ("systemctl", "restart", "rke2-server.service")),
        ("MicroK8s", "", ("snap", "restart", "microk8s.daemon-kubelite")),
        ("kubespray", "kubelet.service", ("systemctl", "restart", "kubelet.service")),
    ],
)
def test_the_kubelet_is_restarted_as_its_distribution_does(name: str, unit: str, command: tuple[str, ...]) -> None:
    with rig(name) as made:
        made.install("one")
        drop_in = made.host.root / f"etc/systemd/system/{unit}.d/10-cri-proxy.conf"
        assert drop_in.exists() is bool(unit)
        assert " ".join(command) in made.host.deeds


def test_an_agent_of_k3s_is_restarted_as_one() -> None:
    with rig("k3s") as made:
        (made.host.root / "etc/systemd/system/k3s.service").rename(
            made.host.root / "etc/systemd/system/k3s-agent.service"
        )
        made.install("one")
        assert "systemctl restart k3s-agent.service" in made.host.deeds


def test_the_daemon_gets_the_runtime_that_the_distribution_brings() -> None:
    with rig("k3s") as made:
        made.install("one")
        unit = (made.host.root / "etc/systemd/system/cri-proxy.service").read_text()
    assert "run --runtime-endpoint unix:///run/k3s/containerd/containerd.sock" in unit


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kubeadm", "CPU manager pins containers too; remedy: drain the node"),
        ("Talos", "its root is read-only"),
        ("Bottlerocket", "its root is read-only"),
        ("EKS (nodeadm, AL2023)", "CPU manager"),
    ],
)
def test_a_node_with_something_else_to_mend_is_left_as_it_is(name: str, words: str) -> None:
    with rig(name, is_plain=False) as made, pytest.raises(CannotInstall, match=words):
        planned(made)


def test_a_place_that_is_not_on_the_node_is_named() -> None:
    words = r"not changed on the node here: set containerRuntimeEndpoint: unix.* in spec\.kubelet\.config of NodeConfig"
    with rig("EKS (nodeadm, AL2023)") as made, pytest.raises(CannotInstall, match=words):
        planned(made)


@pytest.mark.parametrize(
    "path", ["/etc/systemd/system/cri-proxy.service", "/usr/lib/systemd/system/cri-proxy.service", VENV]
)
def test_a_node_with_the_package_stays_the_packages(path: str) -> None:
    with rig("kubeadm") as made:
        put(made.host.root, path, "[Service]\n")
        with pytest.raises(CannotInstall, match="installed in another way"):
            planned(made)


def test_an_image_that_is_not_whole_is_told() -> None:
    with rig("kubeadm") as made:
        write_release(made.releases / "three")
        (made.releases / "three/host/cri-proxy.service").unlink()
        with pytest.raises(CannotInstall, match="the image is not whole"):
            plan(made.host, made.host.root, looked_at(made.host.root), made.wanted("three"), None)


def test_a_configuration_of_the_cluster_has_to_be_there_first() -> None:
    with rig("kubeadm") as made:
        facts, wanted = looked_at(made.host.root), replace(made.wanted("one"), config="/etc/cri-proxy/cluster")
        with pytest.raises(CannotInstall, match="config agent"):
            plan(made.host, made.host.root, facts, wanted, None)
        put(made.host.root, "etc/cri-proxy/cluster/default.yaml", "{}")
        actions = plan(made.host, made.host.root, facts, wanted, None).actions
    (unit,) = (action.new.text for action in actions if action.path.endswith("/cri-proxy.service") and action.new)
    assert "run --config /etc/cri-proxy/cluster" in unit
    assert not any(action.path.endswith("cri-proxy.yaml") for action in actions)


def test_a_host_with_selinux_gets_the_labels_that_its_policy_has() -> None:
    with rig("kubeadm") as made:
        assert "label the release" not in planned(made)
        read = made.host.read
        made.host.read = lambda path: Content("1") if "selinux" in path else read(path)  # type: ignore[method-assign]
        names = planned(made)
    assert names.index("name the release in use") < names.index("label the release") < names.index("start the daemon")


def test_the_guard_counts_from_its_own_start() -> None:
    """systemd lets a timer elapse at once whose OnBootSec= has passed (systemd.timer(5)); nodes are up for weeks."""
    with rig("kubeadm") as made:
        actions = plan(made.host, made.host.root, looked_at(made.host.root), made.wanted("one"), None).actions
    (timer,) = (action.new.text for action in actions if action.path.endswith(".timer") and action.new)
    assert [line for line in timer.splitlines() if line.startswith("On")] == ["OnActiveSec=900"]
