"""A node in memory: the machine, the embedded runtime, and the real coordinator and interceptor in front of it.

Nothing here decides: a scenario's containers go the way that a kubelet's go on a real node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.model import Config
from cri_proxy.config.resources import Resolved, policy_options
from cri_proxy.cri.hints import pci_addresses
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import ConfigError
from cri_proxy.node.context import Rules
from cri_proxy.node.journal import Journal
from cri_proxy.node.node import Node, Outside, build_node
from cri_proxy.node.reader import Reader
from cri_proxy.node.reconfigure import NotReconfigured, reconfigure
from cri_proxy.node.view import NodeView
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.relay.intercept import CriInterceptor
from cri_proxy.runtime.embedded import EmbeddedRuntime
from cri_proxy.simulate.clock import ScenarioClock
from cri_proxy.simulate.configs import merged, read_config
from cri_proxy.state.memory import MemoryStore
from cri_proxy.tryout import pods
from cri_proxy.tryout.image import IMAGE
from cri_proxy.tryout.kubelet import Kubelet
from policies.base import Policy, TopologyHint
from policies.errors import PolicyBaseError
from policies.registry import build_policy
from sysfs.cpuset import NodeSet
from sysfs.model import Machine

# Nothing lies below it: a machine that is not this host has no cgroups whose CPUs could count.
NO_ROOT = Path("/dev/null")


class FaultLog:
    """Implements ``node.journal.Log``: keeps faults of ours and updates that failed, which no scenario may hide."""

    def __init__(self) -> None:
        """Nothing has gone wrong."""
        self._problems: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        """Every step tells what it did by itself."""

    def warning(self, event: str, **fields: object) -> None:
        """Refusals reach the caller; annotations that were not understood are in the journal."""

    def error(self, event: str, **fields: object) -> None:
        """Keep it."""
        where = f" in {fields['where']}" if event == events.FAULT and fields.get("where") else ""
        self._problems.append(f"{event}{where}: {fields.get('reason', '')}")

    def take(self) -> tuple[str, ...]:
        """What has gone wrong since the last call."""
        taken, self._problems = tuple(self._problems), []
        return taken


@dataclass(frozen=True, slots=True)
class _Setup:
    """A configuration and what it means on this machine."""

    options: Mapping[str, object]
    config: Config
    resolved: Resolved
    policy: Policy


class World:
    """One node. ``open`` makes it; after each step ``settle`` waits until everything has come to rest."""

    def __init__(self, machine: Machine, options: Mapping[str, object], clock: Clock | None = None) -> None:
        """``clock`` None: one that makes every run the same.

        Raises ConfigError and PolicyBaseError for options that do not do on this machine.
        """
        self.machine = machine
        self._setup = self._resolve(options)
        self._clock: Clock = clock if clock is not None else ScenarioClock()
        self._faults = FaultLog()
        self.runtime = EmbeddedRuntime(machine, now_ns=self._now_ns, image_names=(IMAGE,))
        self._channel = self.runtime.channel()
        self._store = MemoryStore()
        self._open()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the daemon would warn of at its start, one sentence each."""
        return (*self.machine.notes, *self._setup.resolved.warnings, *self._setup.policy.notes)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.node.context.ledger.policy

    def view(self) -> NodeView:
        """The node as the commands see a daemon's."""
        return NodeView(self.node, self.journal, config=self._setup.config, name="simulated", warnings=self.warnings)

    async def recover(self) -> None:
        """Hold what was saved against the runtime; decisions are made from here on."""
        await self.node.recover()

    async def settle(self) -> tuple[str, ...]:
        """Wait until nothing is under way; gives what has gone wrong inside since the last time."""
        await self.node.settle()
        return self._faults.take()

    async def restart_proxy(self) -> None:
        """End the proxy; a new one starts from what the old one had saved."""
        await self._leave()
        self._open()
        await self.recover()

    async def restart_runtime(self) -> None:
        """End the runtime and bring it back under its containers; the proxy notices and looks."""
        self.runtime.restart()
        await self.node.resync.check_all("the runtime restarted")

    async def restart_both(self) -> None:
        """Both at once."""
        await self._leave()
        self.runtime.restart()
        self._open()
        await self.recover()

    async def notice_exits(self) -> None:
        """Let the slow check come by: an exit is announced by nothing else on old runtimes."""
        await self.node.resync.check_all("slow check")

    async def reconfigure(self, change: Mapping[str, object]) -> str:
        """Lay these options over the present ones; '' or why it was not done, then nothing has changed."""
        try:
            setup = self._resolve(merged(self._setup.options, change))
        except ConfigError as error:
            return f"{error.key}: {error.problem}" if error.key else error.problem
        except PolicyBaseError as error:
            return str(error)
        result = await reconfigure(self.node, setup.policy, _rules(setup.config))
        if isinstance(result, NotReconfigured):
            return result.text
        self._setup = setup
        self.kubelet = self._kubelet()
        return ""

    async def close(self) -> None:
        """End it all."""
        await self.node.close()
        await self._channel.close()

    def _now_ns(self) -> int:
        return int(self._clock.now_seconds() * 1e9)

    def _resolve(self, options: Mapping[str, object]) -> _Setup:
        config = read_config(options)
        resolved = policy_options(config, self.machine, NO_ROOT)
        return _Setup(options, config, resolved, build_policy(config.policy, resolved.machine, resolved.options))

    def _open(self) -> None:
        """A proxy in front of the runtime, as a start makes it."""
        domains = self._setup.config.annotation_domains
        self.journal = Journal(self._faults, self._clock)
        self.node: Node = build_node(
            self._setup.policy,
            _rules(self._setup.config),
            Outside(self._channel, self._store, self._clock, self.journal, domains),
        )
        self.kubelet = self._kubelet()

    def _kubelet(self) -> Kubelet:
        """A kubelet in front of the proxy."""
        memory_bytes = sum(node.memory_bytes for node in self.machine.nodes)
        reader = Reader(memory_bytes, self._setup.config.annotation_domains, self._hints_of)
        relay = InProcessRelay(
            CriInterceptor(self.node, reader), self._channel, lambda error: self.journal.failed_open("relay", error)
        )
        return Kubelet(relay, pods.Node(memory_bytes))

    async def _hints_of(self, config: pb.ContainerConfig) -> Sequence[TopologyHint]:
        """Where the container's devices are: told by the machine, as sysfs tells it on a node."""
        places = {device.address: device for device in self.machine.devices}
        found = [places[address] for address in pci_addresses(config) if address in places]
        return [TopologyHint(d.address, d.local_cpus, NodeSet.of([d.node])) for d in found if d.node >= 0]

    async def _leave(self) -> None:
        """What a process leaves behind when it ends: what was saved."""
        await self.node.settle()
        saved = self._store.load()
        await self.node.close()
        self._store = MemoryStore(saved)


def _rules(config: Config) -> Rules:
    return Rules(config.on_policy_error, config.on_store_error, config.adopt, config.strict_annotations)
