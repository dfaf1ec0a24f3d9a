"""Nodes of a cluster, one after the other: against an API server over a real socket, each on a host of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cri_proxy.installer.agent import InstallAgent, Site, Todo, next_todo
from cri_proxy.installer.cluster import LEASE, ClusterNode, NodeOfCluster
from cri_proxy.installer.journal import InstallJournal, InstallPhase
from cri_proxy.installer.machine import Check
from cri_proxy.kube_api.lease import FAILURE, LeaseState, Turn
from cri_proxy.kube_api.sync_client import BlockingClient
from tests.fakes.api_server import LEASES, ApiServer
from tests.fakes.installer_host import NoLog, Rig, rig
from tests.fakes.made_up_roots import looked_at
from tests.unit.cri_proxy.kube_api.reach import served

LEASE_PATH = f"{LEASES.format('kube-system')}/{LEASE}"
READY = ClusterNode("install", True)
DONE, FAILED = (
    InstallJournal("one", (), InstallPhase.DONE, base_release="one"),
    InstallJournal("one", (), InstallPhase.FAILED),
)
TOLD = InstallJournal("one", (), InstallPhase.FAILED, is_reported=True)


@pytest.mark.parametrize(
    ("journal", "node", "held", "expected"),
    [
        (None, READY, LeaseState(), Todo.INSTALL),
        (None, READY, LeaseState("n1"), Todo.INSTALL),
        (None, READY, LeaseState("n2"), Todo.WAIT),
        (None, READY, LeaseState("n1", "refused"), Todo.WAIT),
        (None, ClusterNode("install"), LeaseState(), Todo.WAIT),
        (None, ClusterNode("", True), LeaseState(), Todo.REST),
        (None, ClusterNode("uninstall", True), LeaseState(), Todo.REST),
        (DONE, READY, LeaseState(), Todo.REST),
        (DONE, ClusterNode("", True), LeaseState(), Todo.REST),
        (DONE, ClusterNode("uninstall"), LeaseState(), Todo.UNINSTALL),
        (DONE, ClusterNode("uninstall"), LeaseState("n2"), Todo.WAIT),
        (InstallJournal("zero", (), InstallPhase.DONE, base_release="zero"), READY, LeaseState(), Todo.INSTALL),
        (InstallJournal("one", ()), ClusterNode(), LeaseState("n2"), Todo.GO_ON),
        (InstallJournal("one", (), InstallPhase.BACK), ClusterNode(), LeaseState(), Todo.GO_ON),
        (FAILED, READY, LeaseState("n1"), Todo.REPORT),
        (TOLD, READY, LeaseState("n1", "it failed"), Todo.WAIT),
        (TOLD, READY, LeaseState(), Todo.INSTALL),
    ],
)
def test_what_comes_next(journal: InstallJournal | None, node: ClusterNode, held: LeaseState, expected: Todo) -> None:
    assert next_todo(journal, node, held, "n1", "one") is expected


@dataclass
class Cluster:
    """Nodes by name, their hosts, and the objects of the API server."""

    server: ApiServer
    rigs: dict[str, Rig]
    client: BlockingClient

    def label(self, name: str, value: str, *, is_ready: bool = True) -> None:
        """Have this label at the Node, as a person does."""
        conditions = [{"type": "Ready", "status": "True" if is_ready else "False", "message": "down"}]
        self.server.put(
            f"/api/v1/nodes/{name}",
            {"metadata": {"labels": {"cri-proxy.io/node": value}}, "status": {"conditions": conditions}},
        )

    def agent(self, name: str, release: str = "one") -> InstallAgent:
        """A new process of the installer on this node."""
        rig = self.rigs[name]
        node = NodeOfCluster(self.client, name)
        site = Site(name, rig.host, rig.host.root, rig.wanted(release), node.state, lambda: looked_at(rig.host.root))
        turn = Turn(self.client, "kube-system", LEASE, name)
        removed = Check(lambda: lambda: "still here" if rig.host.uses_proxy else "", 10)
        return InstallAgent(site, rig.installation(release), turn, removed=removed, log=NoLog())

    def step(self, name: str, release: str = "one") -> Todo:
        return self.agent(name, release).step()

    @property
    def holder(self) -> str:
        return str(self.server.objects.get(LEASE_PATH, {}).get("spec", {}).get("holderIdentity", ""))

    @property
    def failure(self) -> str:
        return str(self.server.objects[LEASE_PATH]["metadata"].get("annotations", {}).get(FAILURE, ""))

    def is_installed(self, name: str) -> bool:
        return self.rigs[name].host.uses_proxy


@contextmanager
def clustered(directory: Path, *names: str) -> Iterator[Cluster]:
    with ExitStack() as stack:
        server = ApiServer()
        account = stack.enter_context(served(server, directory))
        rigs = {name: stack.enter_context(rig("kubeadm")) for name in names}
        cluster = Cluster(server, rigs, BlockingClient(account))
        for name in names:
            cluster.label(name, "install")
        yield cluster


def test_two_nodes_are_installed_one_after_the_other_and_left_as_they_were(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1", "n2") as cluster:
        before = {name: rig.files() for name, rig in cluster.rigs.items()}
        holders: list[str] = []
        cluster.rigs["n1"].host.observe = lambda: holders.append(cluster.holder)
        assert [cluster.step(name) for name in ("n1", "n2", "n1", "n2")] == [Todo.INSTALL] * 2 + [Todo.REST] * 2
        assert set(holders) == {"n1"} and cluster.holder == ""
        assert cluster.is_installed("n1") and cluster.is_installed("n2")
        for name in ("n1", "n2"):
            cluster.label(name, "uninstall")
            assert [cluster.step(name), cluster.step(name)] == [Todo.UNINSTALL, Todo.REST]
        assert {name: rig.files() for name, rig in cluster.rigs.items()} == before
        assert cluster.holder == ""


def test_the_first_failure_stops_all_that_follow_until_a_person_has_looked(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1", "n2") as cluster:
        bad = cluster.rigs["n1"].host.system
        bad.is_refused = True
        assert [cluster.step(name) for name in ("n1", "n2", "n1", "n2")] == [Todo.INSTALL] + [Todo.WAIT] * 3
        assert "wait until the Node is Ready: not Ready" in cluster.failure
        assert cluster.holder == "n1" and not cluster.is_installed("n1") and not cluster.is_installed("n2")
        del cluster.server.objects[LEASE_PATH]
        bad.is_refused = False
        assert [cluster.step(name) for name in ("n2", "n1")] == [Todo.INSTALL] * 2
        assert cluster.is_installed("n1") and cluster.is_installed("n2")


def test_a_node_that_cannot_be_installed_on_is_a_failure_with_its_remedy(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1") as cluster:
        unit = cluster.rigs["n1"].host.root / "usr/lib/systemd/system/cri-proxy.service"
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.touch()
        assert cluster.step("n1") is Todo.INSTALL
        assert "installed in another way" in cluster.failure
        assert cluster.step("n1") is Todo.WAIT


def test_a_node_that_is_not_ready_is_left_alone(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1") as cluster:
        cluster.label("n1", "install", is_ready=False)
        assert cluster.step("n1") is Todo.WAIT
        assert cluster.holder == ""


def test_a_holder_that_was_killed_keeps_its_turn_until_it_is_back(tmp_path: Path) -> None:
    class Gone(BaseException):
        pass

    def kill() -> None:
        if cluster.is_installed("n1"):
            raise Gone

    with clustered(tmp_path, "n1", "n2") as cluster:
        cluster.rigs["n1"].host.observe = kill
        with pytest.raises(Gone):
            cluster.step("n1")
        cluster.rigs["n1"].host.observe = lambda: None
        assert cluster.step("n2") is Todo.WAIT
        assert [cluster.step("n1"), cluster.step("n2")] == [Todo.GO_ON, Todo.INSTALL]


def test_without_an_api_server_what_was_begun_is_ended_and_nothing_is_begun(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1") as cluster:
        cluster.server.refuse = lambda method, path: 503
        assert cluster.step("n1") is Todo.WAIT
        assert cluster.rigs["n1"].journal is None
        cluster.server.refuse = lambda method, path: 0
        cluster.rigs["n1"].host.system.is_refused = True

        def away() -> None:
            if cluster.is_installed("n1"):
                cluster.server.refuse = lambda method, path: 503

        cluster.rigs["n1"].host.observe = away
        assert cluster.step("n1") is Todo.WAIT  # the failure could not be told
        cluster.rigs["n1"].host.observe = lambda: None
        assert not cluster.is_installed("n1")
        cluster.server.refuse = lambda method, path: 0
        assert cluster.step("n1") is Todo.REPORT
        assert "not Ready" in cluster.failure and cluster.holder == "n1"


def test_a_new_release_is_an_upgrade_and_a_guard_that_a_kill_left_is_stopped(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1") as cluster:
        cluster.step("n1")
        restarts = cluster.rigs["n1"].host.system.restarts
        assert cluster.step("n1", "two") is Todo.INSTALL
        assert cluster.rigs["n1"].host.system.daemon == "two"
        assert cluster.rigs["n1"].host.system.restarts == restarts
        cluster.rigs["n1"].host.system.enabled.add("cri-proxy-turn-back.timer")
        cluster.agent("n1", "two").settle()
        assert cluster.rigs["n1"].host.system.enabled == {"cri-proxy.service"}


def test_a_kubelet_that_stays_after_an_uninstallation_stops_all_that_follow(tmp_path: Path) -> None:
    with clustered(tmp_path, "n1") as cluster:
        cluster.step("n1")
        host = cluster.rigs["n1"].host
        host.restart_kubelet = lambda: None  # type: ignore[method-assign]
        cluster.label("n1", "uninstall")
        assert cluster.step("n1") is Todo.UNINSTALL
        assert cluster.failure == "after the uninstallation: still here"
