"""A node in memory: the machine, the embedded runtime, and the real coordinator and interceptor in front of it.

Nothing here decides: a scenario's containers go the way that a kubelet's go on a real node.
"""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir

import yaml

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.daemon.apply import Applier, Built, build, build_anyway
from cri_proxy.errors import ConfigError
from cri_proxy.intercept.reader import Reader
from cri_proxy.intercept.table import CriInterceptor
from cri_proxy.node.context import NodeRules
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.node.node import Environment, Node, build_node
from cri_proxy.node.reset import NodeReset
from cri_proxy.node.status.daemon import ConfigInForce
from cri_proxy.node.status.view import NodeView
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.runtime.embedded.status import cgroups_path
from cri_proxy.simulate.clock import ScenarioClock
from cri_proxy.simulate.machine import with_offline
from cri_proxy.simulate.scenario.devices import DeviceLocator
from cri_proxy.state.memory import MemoryStore
from policies.errors import PolicyBaseError
from policies.policy import Policy
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

NONE = CpuSet()
# Nothing lies below it: a machine that is not this host has no cgroups whose CPUs could count.
NO_ROOT = Path("/dev/null")


class FaultLog:
    """Implements ``journal.Log``: keeps faults of ours and updates that failed, which no scenario may hide."""

    def __init__(self) -> None:
        """Nothing has gone wrong."""
        self._problems: list[str] = []

    def debug(self, event: str, **fields: object) -> None:
        """A step shows what was decided."""

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


class EmbeddedCpusets:
    """Implements ``drift.cgroups.Cpusets``: what the simulated kernel enforces, whatever the runtime has on record."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        """Looks at the containers of this runtime."""
        self._node = runtime.node

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        """The cpuset of this container; None when its process is not the one with this pid, or is gone."""
        container = self._node.containers.get(container_id)
        if container is None or not container.running or container.pid != pid:
            return None
        cpus, mems = self._node.effective(container)
        parent = self._node.sandboxes[container.sandbox_id].config.linux.cgroup_parent
        path = cgroups_path(parent, container_id)
        return Enforced(path, cpus, mems, inherits_cpus=not container.kernel_cpus)


class SimulatedNode:
    """One node. ``open`` makes it; after each step ``settle`` waits until everything has come to rest."""

    def __init__(
        self, machine: Machine, options: Mapping[str, object], clock: Clock | None = None, *, offline: CpuSet = NONE
    ) -> None:
        """``clock`` None: one that makes every run the same. ``offline`` CPUs of the machine are off at first.

        Raises ConfigError and PolicyBaseError for options that do not do on this machine.
        """
        self._whole = machine
        self.machine = with_offline(machine, offline)
        self.places = DeviceLocator(self.machine)
        self._options = options
        self._built = build(read_config(options), self.machine, NO_ROOT)
        self._clock: Clock = clock if clock is not None else ScenarioClock()
        self._faults = FaultLog()
        self.runtime = EmbeddedRuntime(self.machine, now_ns=self._now_ns, image_names=(IMAGE,))
        self._channel = self.runtime.channel()
        self._store = MemoryStore()
        # Made when the first container is told of its resources: most scenarios write no file.
        self._files_root = Path(gettempdir()) / f"cri-proxy-simulate-{token_hex(8)}"
        self._is_serving = True
        self._notices = 0
        self.kubelet: Kubelet
        self._open()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the daemon would warn of at its start, one sentence each."""
        return (*self.machine.notes, *self._built.warnings)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.node.context.ledger.policy

    @property
    def notices(self) -> int:
        """How many commands have been run in containers to tell them of changes, since the node was made."""
        return self._notices + self.node.resource_files.notifier.run

    def view(self) -> NodeView:
        """The node as the commands see a daemon's."""
        return self._view

    async def recover(self) -> None:
        """Hold what was saved against the runtime; decisions are made from here on."""
        await self.node.recover()

    async def settle(self) -> tuple[str, ...]:
        """Wait until nothing is under way; gives what has gone wrong inside since the last time."""
        await self.node.settle()
        return self._faults.take()

    async def restart_proxy(self, *, loses_state: bool = False) -> None:
        """End the proxy; a new one starts from what the old one had saved, or without it."""
        await self._leave(loses_state=loses_state)
        await self._come_back()

    async def restart_runtime(self) -> None:
        """End the runtime and bring it back under its containers; the proxy notices and looks."""
        self.runtime.restart()
        if self._is_serving:
            await self.node.resync.check_all("the runtime restarted")

    async def restart_both(self, *, loses_state: bool = False) -> None:
        """Both at once."""
        await self._leave(loses_state=loses_state)
        self.runtime.restart()
        await self._come_back()

    async def notice_exits(self) -> None:
        """Let the slow check come by: an exit is announced by nothing else on old runtimes."""
        if self._is_serving:
            await self.node.resync.check_all("slow check")

    async def advance(self, seconds: float) -> None:
        """Let so much time pass: what is due is done, then every slow check comes by once."""
        await self._clock.sleep(seconds)
        if self._is_serving:
            self.node.cold_starts.end_due()
            await self.notice_exits()
            self.node.effects.retry_failed()
            await self.node.slow_check()
            await self.node.drift.check()

    async def reset(self) -> None:
        """Uninstall: the proxy ends, every container is widened, the kubelet is pointed at the runtime again."""
        await self._leave()
        await NodeReset(self._channel, self._store, self.machine, self._files_root).run(self.machine.online)
        self._open()
        self._is_serving = False
        self.kubelet = Kubelet(self._channel, self.kubelet.node)

    def tamper(self, container_id: str, cpus: CpuSet | None, mems: NodeSet | None) -> None:
        """Somebody writes to the container's cgroup; the runtime's record stays as it is."""
        container = self.runtime.node.containers[container_id]
        container.kernel_cpus = container.kernel_cpus if cpus is None else str(cpus)
        container.kernel_mems = container.kernel_mems if mems is None else str(mems)

    async def take_offline(self, cpus: CpuSet) -> str:
        """These CPUs go; '' or why not."""
        return await self._use_machine(cpus, self.machine.offline | cpus)

    async def bring_online(self, cpus: CpuSet) -> str:
        """These CPUs come back; '' or why not."""
        return await self._use_machine(cpus, self.machine.offline - cpus)

    async def _use_machine(self, changed: CpuSet, offline: CpuSet) -> str:
        """The kernel has other CPUs from now on, whatever the configuration makes of that."""
        known = self._whole.online
        if not changed <= known or known <= offline:
            return f"the machine has CPUs {known}, and one of them stays online"
        self.machine = self.runtime.node.machine = with_offline(self._whole, offline & known)
        self.places.use(self.machine)
        try:
            built = build_anyway(self._built.config, self.machine, NO_ROOT)
        except (ConfigError, PolicyBaseError) as error:
            return f"the machine cannot be taken over: {error}"
        return await self._put_in_force(built, must_fit=False)

    async def reconfigure(self, change: Mapping[str, object]) -> str:
        """Lay these options over the present ones; '' or why it was not done, then nothing has changed."""
        options = merged(self._options, change)
        try:
            built = build(read_config(options), self.machine, NO_ROOT)
        except ConfigError as error:
            return f"{error.key}: {error.problem}" if error.key else error.problem
        except PolicyBaseError as error:
            return str(error)
        problem = await self._put_in_force(built, must_fit=True)
        self._options = self._options if problem else options
        return problem

    async def _put_in_force(self, built: Built, *, must_fit: bool) -> str:
        """'' or why not; without a proxy it is what the next one starts from."""
        problem = await self._applier.change(built, must_fit=must_fit) if self._is_serving else ""
        self._built = self._built if problem else built
        return problem

    async def close(self) -> None:
        """End it all, and remove what containers were told."""
        await self.node.close()
        await self._channel.close()
        rmtree(self._files_root, ignore_errors=True)

    def _now_ns(self) -> int:
        return int(self._clock.now_seconds() * 1e9)

    def _open(self) -> None:
        """A proxy in front of the runtime, as a start makes it."""
        built = self._built
        self.journal = Journal(self._faults, self._clock)
        environment = Environment(
            self._channel,
            self._store,
            self._clock,
            self.journal,
            built.config.annotation_domains,
            files_root=self._files_root,
            cpusets=EmbeddedCpusets(self.runtime),
        )
        self.node: Node = build_node(built.policy, NodeRules.of(built.config), environment)
        interceptor = CriInterceptor(self.node, self._reader(built))
        in_force = ConfigInForce(built.config, self.warnings)
        self._view = NodeView(self.node, self.journal, in_force, name="simulated")
        self._applier = Applier(self.node, interceptor, in_force, self._reader)
        relay = InProcessRelay(interceptor, self._channel, lambda error: self.journal.failed_open("relay", error))
        self.kubelet = Kubelet(relay, pods.Node(_memory_bytes(self.machine)))

    def _reader(self, built: Built) -> Reader:
        """CRI messages as requests on this machine, with hints from where its devices are."""
        return Reader(_memory_bytes(built.machine), built.config.annotation_domains, self.places.hints_of)

    async def _come_back(self) -> None:
        self._open()
        self._is_serving = True
        await self.recover()

    async def _leave(self, *, loses_state: bool = False) -> None:
        """What a process leaves behind when it ends: what was saved, if nobody loses it."""
        await self.node.settle()
        self._notices = self.notices
        saved = self._store.load()
        await self.node.close()
        self._store = MemoryStore() if loses_state else MemoryStore(saved)


def _memory_bytes(machine: Machine) -> int:
    return sum(node.memory_bytes for node in machine.nodes)


def merged(before: Mapping[str, object], change: Mapping[str, object]) -> dict[str, object]:
    """The options of both; the change wins, key by key, whatever the case of the keys.

    >>> merged({"topologyAware": {"PinCPU": True}}, {"topologyaware": {"PinMemory": False}})
    {'topologyAware': {'PinCPU': True, 'PinMemory': False}}
    """
    result = dict(before)
    spelled = {str(key).casefold(): key for key in before}  # a NUMA node under memoryKinds is a number
    for given, value in change.items():
        key = spelled.get(str(given).casefold(), given)
        earlier = result.get(key)
        if isinstance(value, Mapping) and isinstance(earlier, Mapping):
            result[key] = merged(earlier, value)
        else:
            result[key] = value
    return result


def read_config(options: Mapping[str, object]) -> Config:
    """These options as the daemon understands them. Raises ConfigError, whose line is not the scenario's."""
    return parse_config(yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True))
