"""What is gathered; the stories with real processes are in ``tests/unit/cri_proxy/cli/test_doctor.py``."""

import shutil
from pathlib import Path

import pytest

from cri_proxy.doctor.facts.model import HostFacts, ProcessFacts, UnixSocket
from cri_proxy.doctor.facts.node import Connections, Places, connections_of, look_at_node
from cri_proxy.doctor.facts.processes import list_processes
from cri_proxy.kubelet.settings import ENDPOINT
from tests.fakes.kubelet_node import CONFIG, INSTANCE, KUBEADM_FLAGS, OURS, THEIRS, KubeletNode, kubelet_node


def look(node: KubeletNode, **changes: str) -> HostFacts:
    return look_at_node(Places(node.root, Path("/run/cri-proxy/admin.sock"), Path("/none.yaml"), **changes))


def test_peers_and_owners_are_found_by_inode() -> None:
    client, server = ProcessFacts(1, "a", sockets=frozenset({10})), ProcessFacts(2, "b", sockets=frozenset({20}))
    found = Connections((UnixSocket(10, 20), UnixSocket(20, 10, "/s")), (client, server, ProcessFacts(3, "c")))
    assert found.peers(client) == (UnixSocket(20, 10, "/s"),)
    assert found.owners([20]) == (server,)


def test_the_peer_of_a_client_that_nobody_has_accepted_yet_is_the_one_that_listens() -> None:
    client, listener = ProcessFacts(1, "a", sockets=frozenset({10})), UnixSocket(20, 0, "/s", None, True, (10, 11))
    assert Connections((UnixSocket(10), listener), (client,)).peers(client) == (listener,)


def test_a_node_without_anything_is_no_error() -> None:
    with kubelet_node(wired=False) as node:
        found = look(node)
    assert (found.kubelet.process, found.proxy.is_enabled, found.cgroups.version) == (None, None, 0)
    assert found.kubelet.next.get(ENDPOINT).is_default
    assert found.no_cpus == ""


def test_a_machine_that_cannot_be_read_is_said() -> None:
    with kubelet_node(wired=False) as node:
        shutil.rmtree(node.root / "sys/devices/system/cpu")
        assert "sys/devices/system/cpu" in look(node).no_cpus


def test_a_kubelet_that_no_unit_starts_starts_again_as_it_is() -> None:
    with kubelet_node(wired=False) as node:
        node.put({"k.yaml": f"containerRuntimeEndpoint: {OURS}\n", CONFIG: f"containerRuntimeEndpoint: {THEIRS}\n"})
        node.start_runtime()
        pid = node.start_kubelet("--config=/k.yaml", connects=[])
        found = look(node).kubelet
    assert found.next.get(ENDPOINT).where == "/k.yaml"
    assert (found.process.pid if found.process else 0) == pid
    assert found.is_client is False


def test_kubeadms_files_are_read() -> None:
    with kubelet_node() as node:
        node.put({KUBEADM_FLAGS: "KUBELET_KUBEADM_ARGS=--x\n", INSTANCE: f"containerRuntimeEndpoint: {THEIRS}\n"})
        found = look(node).kubelet
    assert found.is_of_kubeadm
    assert found.instance
    assert found.instance.get(ENDPOINT).value == THEIRS
    assert found.next.get(ENDPOINT).where == f"/{CONFIG}"


def test_the_state_of_managers_is_below_the_kubelets_own_directory() -> None:
    with kubelet_node() as node:
        node.put(
            {
                "k/cpu_manager_state": '{"policyName": "static"}',
                "etc/default/kubelet": "KUBELET_EXTRA_ARGS=--root-dir=/k\n",
            }
        )
        assert look(node).kubelet.managers.cpu_policy == "static"


@pytest.mark.parametrize(
    ("files", "version", "has_cpuset"),
    [
        ({"sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}, 2, False),
        ({"sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n"}, 2, True),
        ({"sys/fs/cgroup/cpuset/cpuset.cpus": "0-7\n"}, 1, True),
        ({"sys/fs/cgroup/cpu/tasks": ""}, 1, False),
    ],
)
def test_the_cgroup_version_is_seen_by_its_files(files: dict[str, str], version: int, has_cpuset: bool) -> None:
    with kubelet_node(wired=False) as node:
        node.put(files)
        found = look(node).cgroups
    assert (found.version, found.has_cpuset) == (version, has_cpuset)


def test_installed_plugins_and_the_sockets_name_may_be_given() -> None:
    with kubelet_node(wired=False) as node:
        node.put({"opt/nri/plugins/10-logger": ""})
        found = look(node, listen="unix:///run/other.sock")
    assert found.nri.installed == ("/opt/nri/plugins/10-logger",)
    assert found.proxy.listen == "/run/other.sock"


def test_files_of_cdi_that_name_cpus_are_found() -> None:
    device = '{"name": "a", "containerEdits": {"env": ["DRA_CPUSET_a=0-3"]}}'
    with kubelet_node(wired=False) as node:
        node.put({"var/run/cdi/cpu.json": f'{{"kind": "dra.k8s.io/cpu", "devices": [{device}]}}'})
        found = look(node).claims
    assert (found.is_honoured, found.files) == (True, ("/var/run/cdi/cpu.json",))


def no_module() -> tuple[UnixSocket, ...]:
    raise FileNotFoundError(2, "No such file or directory")


def test_without_unix_diag_the_clients_of_our_daemon_are_known(tmp_path: Path) -> None:
    with kubelet_node() as node:
        node.start_runtime()
        daemon = node.start_proxy()
        kubelet = node.start_kubelet()
        found = connections_of(node.root, list_processes(node.root), no_module)
    by_pid = {process.pid: process for process in found.processes}
    ours = by_pid[daemon].sockets or frozenset()
    assert found.unseen == ""
    assert [peer.inode in ours for peer in found.peers(by_pid[kubelet])] == [True]


def test_without_unix_diag_a_kubelet_that_is_no_client_has_no_peer_here() -> None:
    with kubelet_node() as node:
        node.start_runtime()
        node.start_proxy()
        kubelet = node.start_kubelet(connects=[])
        found = connections_of(node.root, list_processes(node.root), no_module)
        (process,) = (each for each in found.processes if each.pid == kubelet)
    assert found.peers(process) == ()
