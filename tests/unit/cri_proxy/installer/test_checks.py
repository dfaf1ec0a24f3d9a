"""A Node counts as ready by its kubelet's own heartbeat and by what is seen of the host."""

from dataclasses import replace
from pathlib import Path

from cri_proxy.doctor.facts.model import HostFacts, KubeletFacts, ProcessFacts, ProxyFacts
from cri_proxy.errors import CriProxyError
from cri_proxy.installer.checks import Bounds, checks_of, daemon_problem, removal_check
from cri_proxy.installer.cluster import ClusterNode
from cri_proxy.installer.plan import NODE
from tests.fakes.installer_host import rig
from tests.fakes.made_up_roots import looked_at

READY = ClusterNode("install", True, "", "t1")


class Node:
    """The Node at the API server, as it is now."""

    def __init__(self, state: ClusterNode) -> None:
        self.state = state

    def __call__(self) -> ClusterNode:
        if not self.state.problem.startswith("away"):
            return self.state
        raise CriProxyError("the API server is away")


def facts(*, is_client: bool) -> HostFacts:
    with rig("kubeadm") as made:
        if is_client:
            made.install("one")
        found = looked_at(made.host.root)
    proxy = replace(found.proxy, is_running=True, silence="", is_enabled=True)
    return replace(found, proxy=proxy, kubelet=replace(found.kubelet, is_client=is_client))


def test_a_node_is_ready_once_its_kubelet_says_so_again_through_us() -> None:
    node, seen = Node(READY), facts(is_client=True)
    look = checks_of(Path("/"), Bounds(), node, lambda: seen)[NODE].begin()
    assert "has not renewed" in look()
    node.state = replace(READY, heartbeat="t2")
    assert look() == ""
    node.state = replace(READY, is_ready=False, problem="runtime is down")
    assert look() == "the Node is not Ready: runtime is down"
    node.state = replace(READY, problem="away")
    assert look() == "the API server is away"


def test_a_heartbeat_of_a_former_installation_does_not_count() -> None:
    node, seen = Node(READY), facts(is_client=True)
    check = checks_of(Path("/"), Bounds(), node, lambda: seen)[NODE]
    check.begin()()
    node.state = replace(READY, heartbeat="t2")
    assert "has not renewed" in check.begin()()


def test_a_kubelet_that_is_not_connected_to_us_is_not_led_here() -> None:
    node, seen = Node(READY), facts(is_client=False)
    look = checks_of(Path("/"), Bounds(), node, lambda: seen)[NODE].begin()
    look()
    node.state = replace(READY, heartbeat="t2")
    assert look().startswith("endpoint: ")


def test_after_a_removal_the_kubelet_must_have_left_us() -> None:
    node = Node(READY)
    kubelet = KubeletFacts(ProcessFacts(1, "kubelet"), is_client=True)
    seen = HostFacts(ProxyFacts("/run/cri-proxy/cri-proxy.sock"), kubelet)
    look = removal_check(Bounds(), node, lambda: seen).begin()
    look()
    node.state = replace(READY, heartbeat="t2")
    assert look() == "the running kubelet (process 1) is connected to cri-proxy"
    left = replace(seen, kubelet=replace(kubelet, is_client=False))
    look = removal_check(Bounds(), node, lambda: left).begin()
    look()
    node.state = replace(READY, heartbeat="t3")
    assert look() == ""


def test_a_daemon_that_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    assert "no such socket" in daemon_problem(tmp_path)
