"""A fleet on real sockets: config agents of nodes with what their daemons report, at one API server over TLS."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cri_proxy.config.files.agent import Agent, Origin
from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.exporter.node_condition import finding_of
from cri_proxy.kube_api.client import ApiClient
from cri_proxy.rollout.cluster import ConfigMapName, RolloutCluster
from cri_proxy.rollout.gate import ClusterGate, RolloutRules
from tests.fakes.api_server import ApiServer
from tests.fakes.kubelet_volume import KubeletVolume
from tests.fakes.site import InstantClock
from tests.unit.cri_proxy.kube_api.reach import as_pod


@dataclass
class Lines:
    """A log whose lines are kept."""

    lines: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def debug(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    info = warning = error = debug

    def of(self, event: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.lines if name == event]


class Fleet:
    """The API server and the nodes; ``change`` is what a person applies, ``look`` a look of each agent."""

    def __init__(self, server: ApiServer, directory: Path, account: Path, rules: RolloutRules) -> None:
        self.server, self.directory, self.account, self.rules = server, directory, account, rules
        self.clock = InstantClock()
        self.nodes: dict[str, Member] = {}

    def join(self, name: str, **labels: str) -> "Member":
        self.nodes[name] = Member(self, name, labels)
        return self.nodes[name]

    async def change(self, data: dict[str, str]) -> None:
        for node in self.nodes.values():
            node.volume.write(data)
        await self.look()

    async def look(self) -> None:
        for node in self.nodes.values():
            await node.agent.copy()

    async def settled(self, seconds: float = 100.0) -> None:
        """The daemons take what is there, and this much time passes with a look at its begin and its end."""
        for node in self.nodes.values():
            node.report()
        await self.look()
        await self.clock.sleep(seconds)
        await self.look()

    def texts(self) -> list[str]:
        return [node.text() for node in self.nodes.values()]


class Member:
    """A node: its labels in the cluster, and what its daemon reports by the exporter."""

    def __init__(self, cluster: Fleet, name: str, labels: dict[str, str]) -> None:
        self.server, self.name = cluster.server, name
        self.volume, self.target = KubeletVolume(cluster.directory / name / "config"), cluster.directory / name / "host"
        self.log, self.cluster = Lines(), cluster
        self.label(**labels)
        self.start()

    def start(self) -> None:
        """A new process of the agent, which remembers nothing."""
        api, clock = ApiClient(as_pod(self.server, self.cluster.account)), self.cluster.clock
        asked = RolloutCluster(api, self.name, ConfigMapName("kube-system", "cri-proxy"))
        gate = ClusterGate(asked, self.cluster.rules, clock=clock, log=self.log, random=Random(1))
        self.agent = Agent(Origin(self.volume.directory), self.target, log=self.log, clock=clock, gate=gate)

    def label(self, **labels: str) -> None:
        path = f"/api/v1/nodes/{self.name}"
        named = {f"cri-proxy.io/{key}": value for key, value in labels.items()}
        self.server.put(path, {"metadata": {"name": self.name, "labels": named}, "status": {"conditions": []}})
        self.report()

    def report(self, rejected: str = "", *, is_ready: bool = True) -> None:
        """What the exporter writes of this daemon, which has what stands in the directory in force, or rejects it."""
        source = ConfigLocation(self.target, self.name).read()
        state = {"rejected": rejected, "rejected_digest" if rejected else "digest": source.digest}
        found = finding_of({"is_ready": is_ready}, state)
        condition = {"type": "CriProxyReady", "status": str(found.is_ready), "reason": found.reason}
        self.server.objects[f"/api/v1/nodes/{self.name}"]["status"] = {
            "conditions": [{**condition, "message": found.message}]
        }

    def text(self) -> str:
        source = ConfigLocation(self.target, self.name).read()
        return f"{source.group}:{source.text}" if source.group else source.text
