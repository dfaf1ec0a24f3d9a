"""One node in memory: the daemon's own parts before an embedded runtime; restart, reconfigure, hotplug, reset, time.

Nothing here decides: a scenario's containers take the path that a kubelet's take on a real node.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from typing import Literal

import yaml

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.daemon.apply import Applier, Built, build, build_anyway
from cri_proxy.daemon.device_sources import NodeDevices, inventory_in_force
from cri_proxy.errors import ConfigError
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.node.node import POLL_SECONDS, Environment, Node
from cri_proxy.node.reconfigure import use_devices
from cri_proxy.node.reset import NodeReset
from cri_proxy.node.status.view import NodeView
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.runtime.embedded.containers import cgroups_path
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.simulate.capture import let_stand
from cri_proxy.simulate.clock import ScenarioClock
from cri_proxy.simulate.in_memory import PromptPersistence, PromptRuntime, WholeRecords
from cri_proxy.simulate.machine import with_offline
from cri_proxy.simulate.scenario.costs import NOTHING_LISTED, ListedDevices, inventory_of
from cri_proxy.simulate.scenario.devices import DeviceLocator
from cri_proxy.simulate.scenario.model import CostText
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Saved
from policies.devices import DeviceInventory
from policies.errors import PolicyBaseError
from policies.policy import Policy
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

# An empty root: the cgroups of this host say nothing about the CPUs of a simulated machine.
NO_ROOT = Path("/dev/null")
CHECKS = 240  # of two hours; what can move has moved by then


class FaultLog:
    """Implements ``journal.Log``: collects internal errors and failed updates, which every step has to report."""

    def __init__(self) -> None:
        """Begin without problems."""
        self._problems: list[str] = []

    def debug(self, event: str, **fields: object) -> None:
        """Drop it: a step shows what was done, and refusals reach the caller."""

    info = warning = debug

    def error(self, event: str, **fields: object) -> None:
        """Collect it."""
        where = f" in {fields['where']}" if event == events.FAULT and fields.get("where") else ""
        self._problems.append(f"{event}{where}: {fields.get('reason', '')}")

    def take(self) -> tuple[str, ...]:
        """Return the problems since the last call."""
        taken, self._problems = tuple(self._problems), []
        return taken


class EmbeddedCpusets:
    """Implements ``drift.cgroups.Cpusets``: what the simulated kernel enforces, not what the runtime recorded."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        """Use the containers of this runtime."""
        self._node = runtime.node

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        """Return the cpuset of this container; None when its process has another pid, or is gone."""
        container = self._node.containers.get(container_id)
        if container is None or not container.running or container.pid != pid:
            return None
        cpus, mems = self._node.effective(container)
        parent = self._node.sandboxes[container.sandbox_id].config.linux.cgroup_parent
        path = cgroups_path(parent, container_id)
        return Enforced(path, cpus, mems, inherits_cpus=not container.kernel_cpus)


class SimulatedNode:
    """One node: ``recover`` first, ``settle`` after each step, ``close`` last."""

    def __init__(
        self,
        machine: Machine,
        options: Mapping[str, object],
        clock: Clock | None = None,
        *,
        offline: CpuSet = CpuSet(),
        listed: ListedDevices = NOTHING_LISTED,
        writes_files: bool = True,
    ) -> None:
        """Build it; ``clock`` None: a deterministic one. ``offline`` CPUs of the machine are offline at first.

        ``writes_files``: whether containers get the files of ``/.cri-proxy``. Raises ConfigError and PolicyBaseError
        for options that are wrong on this machine, DocumentError for costs that cannot be used.
        """
        self._whole = machine
        self.machine = with_offline(machine, offline)
        self.devices = DeviceLocator(self.machine)
        self._options = options
        self._listed = listed
        self._built = build(read_config(options), self.machine, NO_ROOT)
        self._built = self._with_devices(self._built)
        self._clock: Clock = clock if clock is not None else ScenarioClock()
        self._faults = FaultLog()
        self.runtime = PromptRuntime(self.machine, now_ns=self._now_ns, image_names=(IMAGE,))
        self._store = MemoryStore()
        # Created for the first container with resource files: most scenarios write none.
        self._files_root = Path(gettempdir()) / f"cri-proxy-simulate-{token_hex(8)}"
        self._writes_files = writes_files
        self._is_serving = True
        self._notices = 0
        self.kubelet: Kubelet
        self._open()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The daemon's warnings at its start, one sentence each."""
        return (*self.machine.notes, *self._built.warnings)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.node.context.ledger.policy

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._built.config

    @property
    def notices(self) -> int:
        """How many ``notify-exec`` commands have been run in containers since the node was built."""
        return self._notices + self.node.resource_files.notifier.run

    def let_stand(self, saved: Saved) -> None:
        """Let the pods and containers of a captured node stand on this one, before it recovers."""
        self._store = MemoryStore(saved)
        let_stand(self.runtime, saved)
        self._open()

    async def recover(self) -> None:
        """Compare what was saved with the runtime; decisions are made from now on."""
        await self.node.recover()

    async def settle(self) -> tuple[str, ...]:
        """Wait until nothing is in progress; return the internal problems since the last call."""
        await self.node.settle()
        return self._faults.take()

    async def restart(self, what: Literal["proxy", "runtime", "both"] = "proxy", *, loses_state: bool = False) -> None:
        """Restart the proxy, from what it had saved or without it, the runtime under its containers, or both."""
        if what != "runtime":
            await self._stop(loses_state=loses_state)
        if what != "proxy":
            self.runtime.restart()
        if what != "runtime":
            self._open()
            self._is_serving = True
            await self.recover()
        elif self._is_serving:
            await self.node.resync.check_all("the runtime restarted")

    async def notice_exits(self) -> None:
        """Run the periodic check: on old runtimes nothing else reports an exit."""
        if self._is_serving:
            await self.node.resync.check_all("slow check")

    async def advance(self, seconds: float) -> None:
        """Let time pass, with as many slow checks as the daemon makes in it: one at least, ``CHECKS`` at most."""
        checks = min(max(1, int(seconds / POLL_SECONDS)), CHECKS)
        for _ in range(checks):
            await self._clock.sleep(seconds / checks)
            if self._is_serving:
                self.node.cold_starts.end_due()
                await self.notice_exits()
                self.node.effects.retry_failed()
                await self.node.slow_check()
                await self.node.drift.check()

    async def reset(self) -> None:
        """Uninstall: stop the proxy, widen every container, and point the kubelet at the runtime."""
        await self._stop()
        await NodeReset(self.runtime, self._store, self.machine, self._files_root).run(self.machine.online)
        self._open()
        self._is_serving = False
        self.kubelet = Kubelet(self.runtime, self.kubelet.node)

    def tamper(self, container_id: str, cpus: CpuSet | None, mems: NodeSet | None) -> None:
        """Write to the container's cgroup as another process would; the runtime's record stays."""
        container = self.runtime.node.containers[container_id]
        container.kernel_cpus = container.kernel_cpus if cpus is None else str(cpus)
        container.kernel_mems = container.kernel_mems if mems is None else str(mems)

    async def hotplug(self, what: Literal["offline", "online"], cpus: CpuSet) -> str:
        """Change the CPUs of kernel and machine, then rebuild the policy; return '' or the problem."""
        offline = self.machine.offline | cpus if what == "offline" else self.machine.offline - cpus
        known = self._whole.online
        if not cpus <= known or known <= offline:
            return f"the machine has CPUs {known}, and one of them stays online"
        self.machine = self.runtime.node.machine = with_offline(self._whole, offline & known)
        self.devices.use(self.machine)
        try:
            built = build_anyway(self._built.config, self.machine, NO_ROOT)
        except (ConfigError, PolicyBaseError) as error:
            return f"the machine cannot be used: {error}"
        # CPUs that have gone away cannot be refused.
        return await self._put_in_force(self._with_devices(built), must_fit=False)

    async def reconfigure(self, change: Mapping[str, object]) -> str:
        """Merge these options into the current ones; return '' or why not, in which case nothing has changed."""
        return await self.replace_options(merged(self._options, change))

    async def replace_options(self, options: Mapping[str, object]) -> str:
        """Put these options in force in place of all current ones; return '' or why not: nothing has changed then."""
        try:
            built = self._with_devices(build(read_config(options), self.machine, NO_ROOT))
        except ConfigError as error:
            return f"{error.key}: {error.problem}" if error.key else error.problem
        except PolicyBaseError as error:
            return str(error)
        problem = await self._put_in_force(built, must_fit=True)
        self._options = self._options if problem else options
        return problem

    def use_costs(self, costs: CostText) -> None:
        """Let new containers choose among the devices of these costs. Raises DocumentError."""
        self._listed = replace(self._listed, costs=costs)
        self._use_devices()

    def use_listed(self, listed: DeviceInventory) -> None:
        """Let new containers choose in this inventory."""
        self._listed = replace(self._listed, inventory=listed)
        self._use_devices()

    def _use_devices(self) -> None:
        self._built = self._with_devices(self._built)
        if self._is_serving:
            use_devices(self.node, self._built.policy.devices)

    def _with_devices(self, built: Built) -> Built:
        """Return it with the devices that costs and inventory list. Raises DocumentError."""
        costs = inventory_of(self._listed.costs, built.config.costs)
        devices = NodeDevices(costs, self._listed.inventory, self._built.policy.devices)
        return built.with_devices(inventory_in_force(built.config.devices, self.machine, devices))

    async def _put_in_force(self, built: Built, *, must_fit: bool) -> str:
        """Apply what was built; return '' or why not. While the proxy is stopped, its next start uses it."""
        problem = await self._applier.change(built, must_fit=must_fit) if self._is_serving else ""
        self._built = self._built if problem else built
        return problem

    async def close(self) -> None:
        """Close proxy and runtime, and remove the resource files."""
        await self.node.close()
        await self.runtime.close()
        if self._writes_files:
            rmtree(self._files_root, ignore_errors=True)

    def _now_ns(self) -> int:
        return int(self._clock.now_seconds() * 1e9)

    def _open(self) -> None:
        """Build a proxy in front of the runtime, as a start of the daemon does."""
        built = self._built
        self.journal = Journal(self._faults, self._clock, WholeRecords)
        environment = Environment(
            self.runtime,
            self._store,
            self._clock,
            self.journal,
            files_root=self._files_root if self._writes_files else None,
            cpusets=EmbeddedCpusets(self.runtime),
            persistence=PromptPersistence,
        )
        self.node = Node(built.policy, built.config, environment)
        self.interceptor = interceptor = CriInterceptor(self.node, self._reader(built))
        self.node.coordinator.config_warnings = self.warnings
        self.view = NodeView(self.node, name="simulated")
        self._applier = Applier(self.node, interceptor, self._reader)
        relay = InProcessRelay(interceptor, self.runtime, lambda error: self.journal.failed_open("relay", error))
        self.kubelet = Kubelet(relay, pods.KubeletNode(_memory_bytes(self.machine)))

    def _reader(self, built: Built) -> Reader:
        """Return a reader of CRI messages for this machine, with the locality of its devices."""
        memory_bytes = _memory_bytes(built.machine)
        return Reader(memory_bytes, built.config, self.devices.localities_of, cache=self.node.context.annotations)

    async def _stop(self, *, loses_state: bool = False) -> None:
        """Close the proxy; keep what it saved, unless that is to be lost."""
        await self.node.settle()
        # The count of a node ends with it.
        self._notices = self.notices
        saved = self._store.load()
        await self.node.close()
        self._store = MemoryStore() if loses_state else MemoryStore(saved)


def _memory_bytes(machine: Machine) -> int:
    return sum(node.memory_bytes for node in machine.nodes)


def merged(before: Mapping[str, object], change: Mapping[str, object]) -> dict[str, object]:
    """Return the options of both; the change wins, key by key; keys are compared case-insensitively.

    >>> merged({"topologyAware": {"PinCPU": True}}, {"topologyaware": {"PinMemory": False}})
    {'topologyAware': {'PinCPU': True, 'PinMemory': False}}
    """
    result = dict(before)
    spelled = {str(key).casefold(): key for key in before}
    for given, value in change.items():
        key = spelled.get(str(given).casefold(), given)
        earlier = result.get(key)
        if isinstance(value, Mapping) and isinstance(earlier, Mapping):
            result[key] = merged(earlier, value)
        else:
            result[key] = value
    return result


def read_config(options: Mapping[str, object]) -> Config:
    """Return these options as the daemon reads them. Raises ConfigError, whose line is not the scenario's."""
    return parse_config(yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True))
