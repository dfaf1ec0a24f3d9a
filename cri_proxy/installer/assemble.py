"""Build the installer of a node out of its parts, and let it run."""

import importlib
import os
import pkgutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy import installer, kubelet
from cri_proxy.clock import steady_seconds
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.doctor.facts.node import Places, look_at_node
from cri_proxy.errors import CriProxyError, FileError
from cri_proxy.installer.agent import InstallAgent, Site
from cri_proxy.installer.checks import ADMIN, Bounds, checks_of, removal_check
from cri_proxy.installer.cluster import LEASE, ClusterNode, NodeOfCluster
from cri_proxy.installer.host import MountedHost
from cri_proxy.installer.journal import JournalFile
from cri_proxy.installer.machine import Installation, Waiting
from cri_proxy.installer.plan import CONFIG, Wanted
from cri_proxy.kube_api.access import ACCOUNT, access_of
from cri_proxy.kube_api.lease import Turn
from cri_proxy.kube_api.sync_client import BlockingClient
from cri_proxy.logs import Log

_RENEW_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """The command line. ``tree`` is this release; ``seconds`` are for daemon, Node, steady Node and guard."""

    node_name: str
    namespace: str
    config: str
    root: Path
    tree: Path
    seconds: tuple[float, float, float, float]

    @property
    def bounds(self) -> Bounds:
        """Return how long things may take."""
        return Bounds(*self.seconds[:3])


class RenewedPauses:
    """Pauses in which the Lease shows, every ten seconds, that the work goes on."""

    def __init__(self, turn: Turn) -> None:
        """Nothing is renewed yet."""
        self._turn = turn
        self._last = steady_seconds()

    def __call__(self, seconds: float) -> None:
        """Wait this long. Blocks."""
        if steady_seconds() - self._last >= _RENEW_SECONDS:
            self._last = steady_seconds()
            with suppress(CriProxyError):  # the next one may get through, and the Lease stays ours
                self._turn.renew()
        time.sleep(seconds)


def _unasked() -> ClusterNode:
    return ClusterNode(problem="the cluster is not asked here")


def installation_of(options: Options, log: Log) -> Installation:
    """Return the installation of this host, without a cluster: for the way back."""
    host = MountedHost(options.root, options.tree)
    checks = checks_of(options.root, options.bounds, _unasked, lambda: _facts(options.root))
    return Installation(host, JournalFile(options.root), checks, Waiting(steady_seconds, time.sleep), log=log)


def agent_of(options: Options, log: Log, account: Path = ACCOUNT) -> InstallAgent:
    """Return the installer of this node, in whose root this process is from here on. Blocks.

    Raises CriProxyError outside of a pod.
    """
    client = BlockingClient(access_of(None, os.environ, _kept(account)))
    node = NodeOfCluster(client, options.node_name)
    # In this order: once the root is the host's, the path of the tree leads elsewhere.
    release, tree, root = options.tree.name, _kept(options.tree), enter(options.root, node)
    turn = Turn(client, options.namespace, LEASE, options.node_name)
    host = MountedHost(root, tree)
    wanted = Wanted(release, tree, int(options.seconds[3]), options.config)
    site = Site(options.node_name, host, root, wanted, node.state, lambda: _facts(root))
    checks = checks_of(root, options.bounds, site.ask, site.look)
    waiting = Waiting(steady_seconds, RenewedPauses(turn))
    installation = Installation(host, JournalFile(root), checks, waiting, log=log)
    return InstallAgent(site, installation, turn, removed=removal_check(options.bounds, site.ask, site.look), log=log)


def _kept(directory: Path) -> Path:
    """Return a name that this directory has in another root too, while this process runs. Raises FileError."""
    try:
        return Path(f"/proc/self/fd/{os.open(directory, os.O_PATH | os.O_DIRECTORY)}")
    except OSError as error:
        raise FileError(str(directory), f"cannot open: {error.strerror}") from error


def enter(root: Path, node: NodeOfCluster) -> Path:
    """Make the host's root ours, and return it: absolute links of the host lead where they do for the host.

    Our modules stay behind, so everything that is asked and looked at is asked and looked at once before.
    """
    if root == Path("/"):
        return root
    for package in (installer, kubelet):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    importlib.import_module("encodings.idna")  # of the first TLS connection, which may come later
    with suppress(CriProxyError):
        node.state()
    _facts(root)
    os.chroot(root)
    os.chdir("/")
    return Path("/")


def serve(agent: InstallAgent, poll_seconds: float) -> None:
    """Do what comes next, again and again, until a signal ends the process. Blocks.

    That is as good as a kill: the journal has what is done, and the next process goes on.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as process 1 of a container it would be ignored
    agent.settle()
    while True:
        agent.step()
        time.sleep(poll_seconds)


def _facts(root: Path) -> HostFacts:
    return look_at_node(Places(root, ADMIN, Path(CONFIG)))
