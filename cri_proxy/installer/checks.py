"""Look whether the daemon is ready, and the node: by the proxy's sockets, the kubelet's, and the API server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cri_proxy.doctor.catalog import Severity
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.doctor.facts.proxy import ask_daemon, silence_of
from cri_proxy.doctor.report import examine, examine_removal
from cri_proxy.errors import CriProxyError
from cri_proxy.installer.cluster import ClusterNode
from cri_proxy.installer.machine import Check
from cri_proxy.installer.plan import CONFIG, DAEMON, NODE

ADMIN: Final = Path("/run/cri-proxy/admin.sock")
LISTEN: Final = Path("/run/cri-proxy/cri-proxy.sock")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long the daemon and the Node may take to be ready, and how long the Node must stay so."""

    daemon_seconds: float = 120.0
    node_seconds: float = 300.0
    steady_seconds: float = 30.0


Ask = Callable[[], ClusterNode]
Look = Callable[[], HostFacts]


def checks_of(root: Path, bounds: Bounds, ask: Ask, look: Look) -> Mapping[str, Check]:
    """Return the checks that the actions of an installation wait for."""
    return {
        DAEMON: Check(lambda: partial(daemon_problem, root), bounds.daemon_seconds),
        NODE: Check(lambda: NodeCheck(ask, look, _installed).problem, bounds.node_seconds, bounds.steady_seconds),
    }


def removal_check(bounds: Bounds, ask: Ask, look: Look) -> Check:
    """Return the check that must hold once the kubelet no longer uses the proxy."""
    return Check(lambda: NodeCheck(ask, look, _removed).problem, bounds.node_seconds, bounds.steady_seconds)


def daemon_problem(root: Path) -> str:
    """Return why the daemon is not ready, '' when it decides and the runtime answers through it. Blocks."""
    proxy = ask_daemon(root, ADMIN, Path(CONFIG)).proxy
    if not proxy.is_running:
        return proxy.unreachable or proxy.unusable
    if proxy.problems:
        return "; ".join(proxy.problems)
    silence = silence_of(root / str(LISTEN)[1:])
    return f"{LISTEN}: {silence}" if silence else ""


class NodeCheck:
    """Whether the Node is Ready by its kubelet's own word: a Node stays Ready for a while whose kubelet has ended."""

    def __init__(self, ask: Ask, look: Look, judge: Callable[[HostFacts], str]) -> None:
        """``ask`` the API server for the Node, ``look`` at the host and ``judge`` what is seen."""
        self._ask = ask
        self._look = look
        self._judge = judge
        self._first_beat: str | None = None

    def problem(self) -> str:
        """Return why the Node is not ready, '' when it is. Blocks."""
        try:
            node = self._ask()
        except CriProxyError as error:
            return str(error)
        # A heartbeat from before the kubelet's restart did not depend on the proxy.
        if self._first_beat is None:
            self._first_beat = node.heartbeat
        if not node.is_ready:
            return f"the Node is not Ready: {node.problem}"
        if node.heartbeat == self._first_beat:
            return "the kubelet has not renewed the Node's Lease since it was restarted"
        return self._judge(self._look())


def _installed(facts: HostFacts) -> str:
    findings = [each for each in examine(facts).findings if each.severity is Severity.MUST]
    return "; ".join(f"{each.code}: {each.text}" for each in findings)


def _removed(facts: HostFacts) -> str:
    return "; ".join(each.text for each in examine_removal(facts).findings)
